"""Shared-memory transport of a controller: reads states and publishes commands, as `xbot2-shm-v1` asks."""
from xbot2_fast._kernels._seqlock cimport (
    CLIENT_SESSION, COMMAND_SEQ, COMMAND_STAMP, COMMAND_VALID, SERVER_SESSION, STATE_SEQ, xb_begin, xb_get, xb_load,
    xb_put, xb_store, xb_unchanged)


cdef class ControllerPort:
    """The controller's end of a segment.

    Args:
        segment: the mapped bytes, kept.
        state_words: numbers of a state, time included.
        command_words: words of a command, stamp_rx_feedback included.
    """
    cdef unsigned char[::1] segment
    cdef unsigned long long* words
    cdef unsigned long long* state
    cdef unsigned long long* command
    cdef Py_ssize_t state_words, command_words
    cdef unsigned long long command_seq
    cdef readonly unsigned long long state_seq
    cdef readonly long long torn

    def __cinit__(self, unsigned char[::1] segment not None, Py_ssize_t state_offset, Py_ssize_t state_words,
                  Py_ssize_t command_offset, Py_ssize_t command_words):
        self.segment = segment
        self.words = <unsigned long long*>&segment[0]
        self.state = self.words + state_offset // 8
        self.command = self.words + command_offset // 8
        self.state_words = state_words
        self.command_words = command_words

    def announce(self, unsigned long long session):
        """Tell the server which session its commands will come from."""
        xb_store(&self.words[CLIENT_SESSION], session)

    def read(self, double[::1] out):
        """Copy the newest state: True when `out` holds a whole one that is newer than the last read."""
        cdef unsigned long long seq = xb_load(&self.words[STATE_SEQ])
        if seq == 0 or seq & 1 or seq == self.state_seq:
            return False
        xb_get(&out[0], self.state, self.state_words)
        if not xb_unchanged(&self.words[STATE_SEQ], seq):
            self.torn += 1
            return False
        self.state_seq = seq
        return True

    def publish(self, unsigned long long stamp_rx, const double[::1] command, unsigned long long now):
        """Publish a command (q dq tau k d) at this wall time [ns of CLOCK_MONOTONIC]."""
        xb_begin(&self.words[COMMAND_SEQ], self.command_seq + 1)
        xb_put(self.command, &stamp_rx, 1)
        if self.command_words > 1:
            xb_put(self.command + 1, &command[0], self.command_words - 1)
        xb_store(&self.words[COMMAND_STAMP], now)
        xb_store(&self.words[COMMAND_VALID], 1)
        self.command_seq += 2
        xb_store(&self.words[COMMAND_SEQ], self.command_seq)

    @property
    def server_session(self):
        return xb_load(&self.words[SERVER_SESSION])

    def detach(self):
        """Let go of the segment; nothing may be called afterwards."""
        self.words = NULL
        self.segment = None
