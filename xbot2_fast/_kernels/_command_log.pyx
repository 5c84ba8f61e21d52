"""Counters of a controller's commands, and a ring of their last arrivals."""
from libc.math cimport NAN

COUNTERS = ("commands", "dropped", "stale", "malformed", "refused", "torn")


cdef void log_arrival(Log* log, long long now, double time, unsigned long long stamp) noexcept nogil:
    cdef long long slot = log.commands % KEPT
    log.at[slot] = now
    log.trip[slot] = time - <double>stamp * 1e-9 if stamp else NAN
    log.commands += 1


cdef class CommandLog:
    """What became of the commands of one controller."""

    def arrival(self, long long now, double time, unsigned long long stamp):
        """Book a command that was taken at this wall time [ns] and simulation time [s]."""
        log_arrival(&self.log, now, time, stamp)

    def dropped(self, long long count):
        """Book commands that were passed over for a newer one."""
        self.log.dropped += count

    def malformed(self):
        """Book a command that could not be used."""
        self.log.malformed += 1

    @property
    def counters(self):
        """Name -> count since the controller connected."""
        return dict(zip(COUNTERS, (self.log.commands, self.log.dropped, self.log.stale, self.log.malformed,
                                   self.log.refused, self.log.torn), strict=True))

    def recent(self, long long since):
        """(wall times [ns], round trips [s], NaN unknown) of the arrivals remembered since this wall time [ns]."""
        cdef long long i, oldest = max(0, self.log.commands - KEPT)
        at, trips = [], []
        for i in range(self.log.commands - 1, oldest - 1, -1):
            if self.log.at[i % KEPT] < since:
                break
            at.append(self.log.at[i % KEPT])
            trips.append(self.log.trip[i % KEPT])
        return at, trips
