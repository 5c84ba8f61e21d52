"""Numbers of a JSON command, as the wire format words it: finite numbers, one per joint, in each list."""

import math


def read_numbers(rows, n):
    """The numbers one behind the other, or what is wrong with the first bad row."""
    numbers = []
    for row in rows:
        if type(row) is not list:
            return "fields are not all lists"
        if len(row) != n:
            return "lists have not one number per joint"
        for item in row:
            if type(item) not in (int, float):
                return "lists do not hold numbers only"
            if not math.isfinite(item):
                return "numbers are not all finite"
            numbers.append(float(item))
    return numbers
