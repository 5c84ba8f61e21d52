"""Numbers of JSON commands, as the plain reading gives them."""

import json
import math
import random
import struct

import numpy as np
import pytest
from xbot2_fast._kernels._control import read_command, read_numbers

from tests.reference import control as reference
from xbot2_fast.bridge.messages import command_rows, parse

ODD = [True, None, "1", [1.0], math.nan, math.inf, -math.inf, (1.0,), {}]


def _rows(rng, n):
    """Rows of numbers of all kinds; one thing is wrong in about half of them."""
    kinds = [lambda: rng.gauss(0, 1), lambda: rng.randrange(-(1 << 63), 1 << 64), lambda: rng.choice([-0.0, 5e-324, 0])]
    rows = [[rng.choice(kinds)() for _ in range(n)] for _ in range(5)]
    row = rng.randrange(5)
    match rng.randrange(8):
        case 0:
            rows[row] = rng.choice([None, tuple(rows[row]), "", 3.0, {}])
        case 1:
            rows[row].append(1.0)
        case 2 if n:
            rows[row].pop()
        case 3 | 4 if n:
            rows[row][rng.randrange(n)] = rng.choice(ODD)
    return rows


@pytest.mark.parametrize("n", [0, 1, 2, 29])
def test_equals_the_reference_bit_for_bit(n):
    rng = random.Random(n)
    seen = set()
    for _ in range(2000):
        rows, out = _rows(rng, n), np.full(5 * n, 7.0)
        expected = reference.read_numbers(rows, n)
        got = read_numbers(rows, out, n)
        if isinstance(expected, str):
            assert got == expected
            seen.add(got)
        else:
            assert got == ""
            np.testing.assert_array_equal(out.view(np.int64), np.array(expected, dtype=float).view(np.int64))
    assert len(seen) == (4 if n else 2)


# ---- the text of a command


def _any_double(rng):
    value = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
    return repr(value) if math.isfinite(value) else "0.5"


def _between_two_doubles(rng):
    """Whole numbers just between two doubles, and their neighbours."""
    shift = rng.randrange(1, 11)
    odd = (rng.getrandbits(52) | 1 << 52) << shift | 1 << (shift - 1)
    return str(odd + rng.choice([-1, 0, 0, 1])) + rng.choice(["", ".0", "e0", "e3", "e-7"])


NUMBERS = [
    lambda rng: repr(rng.gauss(0, 1)),
    lambda rng: repr(10.0 ** rng.randrange(-150, 150) * rng.gauss(0, 1)),
    lambda rng: f"{rng.getrandbits(63)}e{rng.randrange(-160, 160)}",
    lambda rng: f"{rng.randrange(1000)}.{rng.randrange(10 ** rng.randrange(1, 16))}",
    lambda rng: str(rng.randrange(-100, 100)),
    lambda rng: f"-0.{'0' * rng.randrange(30)}{rng.randrange(10**6)}E{rng.choice('+-')}0{rng.randrange(9)}",
    _any_double,
    _between_two_doubles,
]


def _text(rng, n, kinds):
    lists = {f: [rng.choice(kinds)(rng) for _ in range(n)] for f in ("q", "dq", "tau", "k", "d")}
    space = lambda: rng.choice(["", "", "", " ", "\n", "\t ", "\r"])  # noqa: E731
    fields = [
        f'"{name}"{space()}:{space()}[{space()}{f"{space()},{space()}".join(row)}{space()}]'
        for name, row in lists.items()
    ]
    if rng.random() < 0.7:
        fields.append(f'"stamp_rx_feedback":{rng.choice([0, 1, rng.getrandbits(63), rng.getrandbits(64)])}')
    rng.shuffle(fields)
    parts = [
        '"type":"control"',
        f'"joint_command"{space()}:{space()}{{{space()}{f"{space()},{space()}".join(fields)}{space()}}}',
    ]
    rng.shuffle(parts)
    return f"{space()}{{{space()}{f'{space()},{space()}'.join(parts)}{space()}}}{space()}".encode()


@pytest.mark.parametrize("n", [1, 2, 29])
def test_the_text_of_commands_equals_the_reference_bit_for_bit(n):
    rng = random.Random(n)
    taken = 0
    for count in range(4000 // n + 100):
        text, out = _text(rng, n, NUMBERS[: 1 + count % len(NUMBERS)]), np.full(5 * n, 7.0)
        stamp = read_command(text, out, n)
        if stamp is None:
            continue  # left to the whole reader
        taken += 1
        numbers, expected_stamp = reference.read_command(text, n)
        assert stamp == expected_stamp
        np.testing.assert_array_equal(out.view(np.int64), np.array(numbers, dtype=float).view(np.int64), str(text))
    assert taken > count / 20


def test_what_controllers_write_is_read_here():
    rng = np.random.default_rng(0)
    for kind in (float, int, np.float32):
        rows = {
            f: [float(kind(x)) if kind is not int else int(x) for x in rng.normal(size=29) * 100]
            for f in ["q", "dq", "tau", "k", "d"]
        }
        for separators in ((",", ":"), (", ", ": ")):
            text = json.dumps(
                {"type": "control", "joint_command": {**rows, "stamp_rx_feedback": 12}}, separators=separators
            )
            assert read_command(text.encode(), np.zeros(145), 29) == 12


@pytest.mark.parametrize("n", [1, 3])
def test_of_mutated_texts_only_those_are_taken_that_the_whole_reader_takes(n):
    rng = random.Random(n)
    alphabet = b'0123456789.-+eE,:[]{}" \\qdtaukcontrol_N\x00\xff\xc3'
    taken = 0
    for _ in range(20_000):
        data = bytearray(_text(rng, n, NUMBERS))
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.choice(alphabet)
                case 1:
                    data.insert(at, rng.choice(alphabet))
                case 2:
                    del data[at : at + rng.choice([1, 1, 5, 40])]
                case 3:
                    data[at:at] = data[at : at + rng.randrange(60)]
            if not data:
                break
        text, out = bytes(data), np.full(5 * n, 7.0)
        stamp = read_command(text, out, n)
        if stamp is None:
            continue
        taken += 1
        expected = reference.read_command(text, n)
        assert expected is not None, text
        assert stamp == expected[1]
        np.testing.assert_array_equal(out.view(np.int64), np.array(expected[0], dtype=float).view(np.int64), str(text))
        rows, other = command_rows(parse(text))  # and the reader behind it agrees
        again = np.zeros(5 * n)
        assert read_numbers(rows, again, n) == ""
        assert other == stamp
        np.testing.assert_array_equal(out.view(np.int64), again.view(np.int64))
    assert taken > 300


@pytest.mark.parametrize("n", [0, 2])
def test_a_robot_without_joints_and_too_short_an_array_are_left_to_the_whole_reader(n):
    text = _text(random.Random(0), n, NUMBERS[:1])
    assert read_command(text, np.zeros(5 * n - 1 if n else 0), n) is None
