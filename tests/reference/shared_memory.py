"""Both ends of `xbot2-shm-v1` as plain reads and writes of a bytearray, one after the other."""

import math
import struct

from tests.reference.command_log import CommandLog

MAGIC, VERSION, STATE_SEQ, COMMAND_SEQ, SERVER_SESSION, CLIENT_SESSION, VALID, STATE_OFFSET, COMMAND_OFFSET, STAMP = (
    0, 1, 6, 7, 8, 9, 10, 11, 12, 13,
)  # fmt: skip
OF_THE_SERVER = (0, 1, 2, 3, 4, 5, SERVER_SESSION, STATE_OFFSET, COMMAND_OFFSET)


def get(memory, word):
    return struct.unpack_from("<Q", memory, 8 * word)[0]


def put(memory, word, value):
    struct.pack_into("<Q", memory, 8 * word, value)


class Server:
    def __init__(self, memory, header, n, freshness):
        self.memory, self.header, self.n = memory, list(header), n
        self.freshness = freshness  # ns
        self.log = CommandLog()
        self.states, self.stamp, self.fresh = 0, 0, False
        self.command = None
        self.known = False
        self._write_header()

    def _write_header(self):
        for word in OF_THE_SERVER:
            put(self.memory, word, self.header[word])

    def discovered(self):
        self.log, self.known = CommandLog(), True
        self.session = None
        self.taken = 0
        self.bad, self.stuck, self.counted = set(), None, None
        self._write_header()
        for word in (VALID, STAMP, CLIENT_SESSION, COMMAND_SEQ):
            put(self.memory, word, 0)

    def commit(self, numbers, time):
        self.states += 1
        numbers = [time, *numbers[1:]]
        struct.pack_into(f"<{len(numbers)}d", self.memory, self.header[STATE_OFFSET], *numbers)
        put(self.memory, STATE_SEQ, 2 * self.states)
        return all(map(math.isfinite, numbers))

    def take(self, now, time):
        """Whether the command in the segment counts and is newer than the last one."""
        if not self.known:
            return False
        sequence = get(self.memory, COMMAND_SEQ)
        counts = self.log.counters
        if sequence % 2:
            if self.stuck != sequence:
                counts["torn"] += 1
            self.stuck = sequence
            return False
        if sequence <= self.taken or self.bad == {sequence}:
            return False
        session = get(self.memory, CLIENT_SESSION)
        mine = all(get(self.memory, word) == self.header[word] for word in (MAGIC, VERSION, SERVER_SESSION))
        announced = get(self.memory, VALID) and session and get(self.memory, STAMP)
        if not mine or not announced or self.session not in (None, session):
            counts["refused"] += self.counted != sequence
            self.counted = sequence
            return False
        self.session = session
        if now - get(self.memory, STAMP) > self.freshness:
            counts["stale"] += 1
            self.bad = {sequence}
            return False
        stamp, *numbers = struct.unpack_from(f"<Q{5 * self.n}d", self.memory, self.header[COMMAND_OFFSET])
        if not all(map(math.isfinite, numbers)):
            counts["malformed"] += 1
            self.bad = {sequence}
            return False
        if self.taken:
            counts["dropped"] += (sequence - self.taken) // 2 - 1
        self.taken = sequence
        self.command, self.stamp, self.fresh = numbers, stamp, True
        self.log.arrival(now, time, stamp)
        return True


class Controller:
    def __init__(self, memory, header, state_words):
        self.memory, self.header, self.state_words = memory, list(header), state_words
        self.state_sequence = self.command_sequence = 0

    def announce(self, session):
        put(self.memory, CLIENT_SESSION, session)

    def read(self):
        """The newest state where it is whole and was not read before."""
        sequence = get(self.memory, STATE_SEQ)
        if sequence == 0 or sequence % 2 or sequence == self.state_sequence:
            return None
        self.state_sequence = sequence
        return struct.unpack_from(f"<{self.state_words}d", self.memory, self.header[STATE_OFFSET])

    def publish(self, stamp, numbers, now):
        self.command_sequence += 2
        struct.pack_into(f"<Q{len(numbers)}d", self.memory, self.header[COMMAND_OFFSET], stamp, *numbers)
        put(self.memory, STAMP, now)
        put(self.memory, VALID, 1)
        put(self.memory, COMMAND_SEQ, self.command_sequence)
