"""Datagrams of a UNIX socket, without an exception where nothing waits."""
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from os import fsdecode

cdef extern from *:
    """
    #include <stddef.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/un.h>
    /* Length of the next datagram (it may be longer than the buffer), -1 for none; its sender's address and length. */
    static ssize_t xb_receive(int fd, char* buffer, size_t size, struct sockaddr_un* from, size_t* length) {
        socklen_t all = sizeof *from;
        ssize_t count = recvfrom(fd, buffer, size, MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr*)from, &all);
        size_t head = offsetof(struct sockaddr_un, sun_path);
        *length = all > head ? all - head : 0;
        if (*length && from->sun_path[0]) *length = strnlen(from->sun_path, *length);
        return count;
    }
    """
    struct sockaddr_un:
        char sun_path[108]
    ssize_t xb_receive(int fd, char* buffer, size_t size, sockaddr_un* address, size_t* length) noexcept nogil


cdef class DatagramReader:
    """Receives from a bound socket.

    Args:
        fd: of the socket, which the caller keeps open.
        longest: longest datagram that can be received whole [bytes].
    """
    cdef int fd
    cdef size_t size
    cdef bytearray buffer
    cdef bytes last_raw
    cdef object last

    def __cinit__(self, int fd, Py_ssize_t longest):
        self.fd = fd
        self.size = longest
        self.buffer = bytearray(longest)
        self.last_raw = b""

    cdef object _address(self, const char* path, size_t length):
        """A path, the bytes of an abstract address, or None; most datagrams come from the sender of the one before."""
        cdef bytes raw = PyBytes_FromStringAndSize(path, length)
        if raw != self.last_raw:
            self.last_raw = raw
            self.last = None if length == 0 else raw if path[0] == 0 else fsdecode(raw)
        return self.last

    def receive(self):
        """(data, sender's address) of the next datagram; None where nothing waits.

        The data is None where it was too long; the address is None where the sender bound none, and bytes where it is
        abstract.

        Raises:
            OSError: the socket is closed or broken.
        """
        cdef sockaddr_un sender
        cdef size_t length
        cdef char* buffer = PyByteArray_AS_STRING(self.buffer)
        cdef ssize_t count = xb_receive(self.fd, buffer, self.size, &sender, &length)
        if count < 0:
            if errno == EAGAIN or errno == EINTR:
                return None
            raise OSError(errno, "cannot receive from the socket")
        data = None if <size_t>count > self.size else PyBytes_FromStringAndSize(buffer, count)
        return data, self._address(sender.sun_path, length)
