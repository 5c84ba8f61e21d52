"""Numbers of a JSON command, as the wire format words it: finite numbers, one per joint, in each list."""

import json
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


def read_command(text, n):
    """Numbers and stamp of a control message, by a whole JSON reader; None where it is not sound."""
    try:
        message = json.loads(text.decode(), parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return None
    command = message.get("joint_command") if isinstance(message, dict) else None
    if not isinstance(command, dict) or message.get("type") != "control":
        return None
    stamp = command.get("stamp_rx_feedback", 0)
    numbers = read_numbers([command.get(name) for name in ("q", "dq", "tau", "k", "d")], n)
    if isinstance(numbers, str) or type(stamp) is not int or not 0 <= stamp < 1 << 64:
        return None
    return numbers, stamp
