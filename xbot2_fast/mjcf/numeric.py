"""Numbers in XML attributes: read strictly, written so that they read back as the same doubles."""

import math
from collections.abc import Iterable


def read_numbers(text: str, count: int) -> tuple[float, ...]:
    """`count` finite numbers separated by white space.

    Raises:
        ValueError: another count, or something that is not a finite number; the message shows the text.
    """
    words = text.split()
    if len(words) != count:
        raise ValueError(f"expected {count} number{'s' * (count != 1)}, got {text!r}")
    try:
        values = tuple(float(word) for word in words)
    except ValueError:
        values = (math.nan,)
    if not all(map(math.isfinite, values)) or "_" in text:
        raise ValueError(f"expected {count} finite number{'s' * (count != 1)}, got {text!r}")
    return values


def write_numbers(values: Iterable[float]) -> str:
    """Shortest text of each number that reads back as the same double."""
    return " ".join(write_number(value) for value in values)


def write_number(value: float) -> str:
    return repr(float(value) + 0.0).removesuffix(".0")  # + 0.0: a negative zero is written as 0
