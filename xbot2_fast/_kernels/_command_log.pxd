"""What became of the commands of one controller."""

cdef enum:
    KEPT = 4096              # arrivals that are remembered

cdef struct Log:
    long long commands       # taken
    long long dropped        # a newer one was there before they were looked at
    long long stale          # too old when they were looked at
    long long malformed      # not finite, or not what the protocol asks for
    long long refused        # of a session that does not count
    long long torn           # reads begun anew because the writer was inside its frame
    long long at[KEPT]       # wall time of the last arrivals [ns]; arrival i is at i % KEPT
    double trip[KEPT]        # simulation time since the state that they answer [s], NaN unknown

# Book a command that was taken at wall time `now` [ns] and simulation time `time` [s]; stamp 0: unknown.
cdef void log_arrival(Log* log, long long now, double time, unsigned long long stamp) noexcept nogil


cdef class CommandLog:
    cdef Log log
