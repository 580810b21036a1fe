# The types with which Cython compiles exchange.py. Methods without the interpreter are marked nogil: there, a local
# without a type is an error and not merely slow.
cimport cython

cdef class Exchange:
    cdef int transfers, classes
    cdef double capacity
    cdef double[::1] ready, volume, own, least, moved, pace, target, ends
    cdef int[::1] kind, begin, head, number, live, which

    @cython.locals(endless=double, started=int, active=int, lives=int, now=double, demand=double, place=int, each=int,
        share=double, step=double, first=int, lasting=double, arrives=bint)
    cdef double run(self, double backward_s) noexcept nogil

    @cython.locals(each=int, target=double, place=int)
    cdef int start(self, int started, int lives) noexcept nogil

    @cython.locals(kept=int, place=int)
    cdef int leave(self, int gone, int lives) noexcept nogil
