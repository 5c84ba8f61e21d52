"""Both ends of a segment, step by step against plain reads and writes of the same bytes."""

import itertools
import math
import random
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from xbot2_fast._kernels._command_log import CommandLog
from xbot2_fast._kernels._controller import ControllerPort
from xbot2_fast._kernels._port import Port

import xbot2_fast
from tests.reference import shared_memory as reference
from tests.reference.command_log import CommandLog as ReferenceLog
from xbot2_fast.bridge.layout import Layout, state_words

FRESHNESS = 0.1  # s
SESSION = 0x1234
WORDS = {"session": reference.CLIENT_SESSION, "stamp": reference.STAMP, "valid": reference.VALID}


def bits(numbers):
    return np.asarray(numbers, dtype=float).view(np.int64).tolist()


class Pair:
    """A kernel's server and the plain one, each with a segment of its own that always holds the same bytes."""

    def __init__(self, n, m):
        layout = Layout.of(n, m)
        self.header = layout.header(SESSION)
        self.memories = bytearray(layout.total_size), bytearray(layout.total_size)
        self.n = n
        self.numbers, self.command = np.zeros(state_words(n, m)), np.zeros(5 * n)
        self.port = Port(self.numbers, self.command, np.zeros(5 * n), n, FRESHNESS)
        self.port.attach(memoryview(self.memories[0]), self.header)
        self.plain = reference.Server(self.memories[1], self.header, n, int(FRESHNESS * 1e9))
        self.log = None

    def discovered(self):
        self.log = CommandLog()
        self.port.discovered(self.log)
        self.plain.discovered()

    def take(self, now, time):
        assert self.port.take(now, time) == self.plain.take(now, time)

    def commit(self, numbers, time):
        self.numbers[:] = numbers
        assert self.port.commit(time) == self.plain.commit(numbers, time)

    def scribble(self, word, value):
        for memory in self.memories:
            reference.put(memory, word, value)

    def check(self):
        assert self.memories[0] == self.memories[1]
        assert self.port.states == self.plain.states
        assert (self.port.stamp, self.port.fresh) == (self.plain.stamp, self.plain.fresh)
        if self.plain.command is not None:
            assert bits(self.command) == bits(self.plain.command)
        if self.log is not None:
            assert self.log.counters == self.plain.log.counters
            at, trips = self.log.recent(0)
            assert (at, bits(trips)) == (self.plain.log.recent(0)[0], bits(self.plain.log.recent(0)[1]))


def _number(rng):
    return rng.choice([rng.gauss(0, 1), rng.gauss(0, 1), rng.gauss(0, 1), -0.0, 5e-324, 1e308])


def _command(rng, n):
    numbers = [_number(rng) for _ in range(5 * n)]
    if n and rng.random() < 0.1:
        numbers[rng.randrange(5 * n)] = rng.choice([math.nan, math.inf, -math.inf])
    return numbers


def _act(pair, rng, controllers, now):
    """One thing that a server or a controller does, or that goes wrong in the segment."""
    match rng.choice(["publish"] * 5 + ["take"] * 6 + ["commit"] * 2 + ["scribble", "odd", "jump", "discovered"]):
        case "publish":
            numbers, stamp = _command(rng, pair.n), rng.choice([0, rng.randrange(1 << 64)])
            at = now - rng.choice([0, 10**7, 99_999_999, 100_000_000, 100_000_001, 10**9, -(10**9)])
            for memory, controller in zip(pair.memories, controllers, strict=True):
                controller.command_sequence = reference.get(memory, reference.COMMAND_SEQ) // 2 * 2
                controller.publish(stamp, numbers, at)
            if rng.random() < 0.8:
                pair.scribble(reference.CLIENT_SESSION, 7)
            pair.take(now, rng.random())
        case "take":
            pair.take(now, rng.random())
            if rng.random() < 0.5:
                assert pair.port.take_fresh() == pair.plain.fresh
                pair.plain.fresh = False
        case "commit":
            numbers = [_number(rng) for _ in pair.numbers]
            if rng.random() < 0.2:
                numbers[rng.randrange(len(numbers))] = math.nan
            pair.commit(numbers, _number(rng))
        case "scribble":
            word = rng.choice([reference.MAGIC, reference.VERSION, reference.SERVER_SESSION, *WORDS.values()])
            pair.scribble(word, rng.choice([0, 1, 7, 8, rng.randrange(1 << 63)]))
        case "odd":
            pair.scribble(reference.COMMAND_SEQ, rng.randrange(1 << 10) * 2 + 1)
        case "jump":
            pair.scribble(reference.COMMAND_SEQ, rng.randrange(1 << 10) * 2)
        case "discovered":
            pair.discovered()
            if rng.random() < 0.9:
                pair.scribble(reference.CLIENT_SESSION, rng.choice([7, 8]))


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (3, 1), (8, 2)])
def test_server_equals_the_reference_bit_for_bit(n, m):
    counts = dict.fromkeys(("commands", "dropped", "stale", "malformed", "refused", "torn"), 0)
    for seed in range(60):
        rng = random.Random(seed)
        pair = Pair(n, m)
        controllers = [reference.Controller(memory, pair.header, state_words(n, m)) for memory in pair.memories]
        now = 10**12
        for _ in range(80):
            now += rng.randrange(10**7)
            _act(pair, rng, controllers, now)
            pair.check()
        if pair.log is not None:
            for name in counts:
                counts[name] += pair.log.counters[name]
    assert all(counts[name] for name in counts if n or name != "malformed"), counts


def test_after_detach_the_segment_is_left_alone():
    pair = Pair(2, 0)
    pair.discovered()
    pair.port.detach()
    before = bytes(pair.memories[0])
    pair.port.commit(1.0)
    pair.port.discovered(CommandLog())
    assert not pair.port.take(0, 0.0)
    assert not pair.port.announced()
    assert bytes(pair.memories[0]) == before


def test_a_command_that_came_by_another_way_is_delivered():
    pair = Pair(2, 0)
    pair.port.deliver(77, 5)
    assert (pair.port.stamp, pair.port.fresh) == (77, True)
    assert pair.port.take_fresh()
    assert not pair.port.take_fresh()


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (5, 2)])
def test_controller_equals_the_reference_bit_for_bit(n, m):
    rng = random.Random(n)
    layout, words = Layout.of(n, m), state_words(n, m)
    header = layout.header(SESSION)
    memories = bytearray(layout.total_size), bytearray(layout.total_size)
    for memory in memories:
        reference.Server(memory, header, n, 0)
    ours = ControllerPort(memoryview(memories[0]), layout.state_offset, words, layout.command_offset, 1 + 5 * n)
    plain = reference.Controller(memories[1], header, words)
    assert ours.server_session == SESSION
    out = np.zeros(words)
    for _ in range(300):
        match rng.choice(["state", "odd", "read", "read", "publish", "announce"]):
            case "state" | "odd" as what:
                numbers = [_number(rng) for _ in range(words)]
                sequence = rng.choice([0, 2, 4, 1 << 40]) + (what == "odd")
                for memory in memories:
                    reference.struct.pack_into(f"<{words}d", memory, layout.state_offset, *numbers)
                    reference.put(memory, reference.STATE_SEQ, sequence)
            case "read":
                expected = plain.read()
                assert ours.read(out) == (expected is not None)
                if expected is not None:
                    assert bits(out) == bits(expected)
                assert ours.state_seq == plain.state_sequence
            case "publish":
                numbers, stamp, now = _command(rng, n), rng.randrange(1 << 64), rng.randrange(1 << 63)
                ours.publish(stamp, np.array(numbers or [0.0]), now)
                plain.publish(stamp, numbers, now)
            case "announce":
                session = rng.randrange(1 << 64)
                ours.announce(session)
                plain.announce(session)
        assert memories[0] == memories[1]
    assert ours.torn == 0


def test_command_log_equals_the_reference_bit_for_bit():
    rng = random.Random(0)
    ours, plain = CommandLog(), ReferenceLog()
    now = 0
    for count in range(10_000):
        now += rng.randrange(1_000_000)
        time, stamp = rng.random() * 100, rng.choice([0, rng.randrange(10**11), 1 << 63])
        ours.arrival(now, time, stamp)
        plain.arrival(now, time, stamp)
        if rng.random() < 0.05:
            dropped = rng.randrange(5)
            ours.dropped(dropped)
            ours.malformed()
            plain.counters["dropped"] += dropped
            plain.counters["malformed"] += 1
        if count % 500 in (0, 1) or count in (4095, 4096, 4097, 8192):
            since = rng.choice([0, now, now + 1, now - 10**8, now - 10**9])
            (at, trips), (expected_at, expected_trips) = ours.recent(since), plain.recent(since)
            assert at == expected_at
            assert bits(trips) == bits(expected_trips)
    assert ours.counters == plain.counters


# ---- the order of memory accesses, which no test on x86 could see to be wrong

RELAXED, ACQUIRE, RELEASE = 0, 2, 3
ORDER = {  # function -> its atomic accesses and fences, in order, as the C11 seqlock asks
    "xb_load": [("load", ACQUIRE)],
    "xb_store": [("store", RELEASE)],
    "xb_begin": [("store", RELAXED), ("fence", RELEASE)],
    "xb_put": [("store", RELAXED)],
    "xb_get": [("load", RELAXED)],
    "xb_unchanged": [("fence", ACQUIRE), ("load", RELAXED)],
}


@pytest.fixture(scope="module")
def seqlock_accesses(tmp_path_factory):
    """Function of the seqlock -> its atomic accesses and fences, as the compiler understood them."""
    source = Path(xbot2_fast.__file__).parent / "_kernels" / "_seqlock.pxd"
    if not source.exists():
        source = Path(__file__).parents[2] / "xbot2_fast" / "_kernels" / "_seqlock.pxd"
    code = source.read_text().split('cdef extern from *:\n    """')[1].split('"""')[0].replace("static inline ", "")
    folder = tmp_path_factory.mktemp("seqlock")
    (folder / "seqlock.c").write_text(code)
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    subprocess.run(
        [shutil.which(compiler) or "cc", "-std=c11", "-O2", "-c", "seqlock.c", "-fdump-tree-optimized=dump"],
        cwd=folder, check=True,
    )  # fmt: skip
    found, function = {}, None
    for line in (folder / "dump").read_text().splitlines():
        if match := re.match(r";; Function (\w+) ", line):
            function = found.setdefault(match[1], [])
        elif match := re.search(r"__atomic_(?:thread_)?(load|store|fence)\w*\s*\((.*)\)", line):
            function.append((match[1], int(match[2].split(",")[-1].strip().rstrip("Bu"))))
    return found


@pytest.mark.parametrize("function", ORDER)
def test_seqlock_orders_its_accesses_for_every_machine(seqlock_accesses, function):
    accesses = [kind for kind, _ in itertools.groupby(seqlock_accesses[function])]  # loops may be unrolled
    assert accesses == ORDER[function]
