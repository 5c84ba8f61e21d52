"""Numbers of JSON commands, as the plain reading gives them."""

import math
import random

import numpy as np
import pytest
from xbot2_fast._kernels._control import read_numbers

from tests.reference import control as reference

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
