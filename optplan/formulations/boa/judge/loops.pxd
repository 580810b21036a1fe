# The types with which Cython compiles loops.py. Methods without the interpreter are marked nogil: there, a local
# without a type is an error and not merely slow.
cimport cython

cdef class ClassRuns:
    cdef const double[:, :, ::1] steps, entries
    cdef const Py_ssize_t[::1] kinds, own
    cdef const unsigned char[:, ::1] takes
    cdef Py_ssize_t epochs, options, types, numbers
    cdef bint by_type
    cdef public int[:, ::1] closed
    cdef Py_ssize_t[:, ::1] longest
    cdef unsigned char[::1] unbound
    cdef double[::1] must, charge
    cdef double[:, ::1] run, come, ahead, behind, through, done, rest

    @cython.locals(j=Py_ssize_t, k=Py_ssize_t, changed=bint)
    cpdef bint reopen(self, int depth) noexcept

    @cython.locals(k=Py_ssize_t)
    cpdef void divide(self, Py_ssize_t epoch, Py_ssize_t first, Py_ssize_t behind, bint within, int depth) noexcept

    @cython.locals(endless=double, number=Py_ssize_t, off=double, on=double, j=Py_ssize_t, least_on=double,
        least_off=double, k=Py_ssize_t, entered=double, stayed=double)
    cpdef double find_need(self, Py_ssize_t h) noexcept

    @cython.locals(least=double, f=Py_ssize_t)
    cdef double enter_least(self, Py_ssize_t number, Py_ssize_t k) noexcept nogil

    @cython.locals(endless=double, number=Py_ssize_t, a=Py_ssize_t, least=double, end=Py_ssize_t, j=Py_ssize_t,
        now=double, k=Py_ssize_t, used=double, elsewhere=double)
    cpdef void bind(self, Py_ssize_t h, double room) noexcept

    @cython.locals(endless=double, j=Py_ssize_t, k=Py_ssize_t, h=Py_ssize_t, f=Py_ssize_t, number=Py_ssize_t,
        weight=double)
    cdef void weigh(self, const double[::1] weights) noexcept nogil

    @cython.locals(least=double, f=Py_ssize_t)
    cdef double enter(self, Py_ssize_t h, Py_ssize_t j, Py_ssize_t k) noexcept nogil

    @cython.locals(endless=double, own=Py_ssize_t, least=double, k=Py_ssize_t, ended=double, best=double)
    cdef void advance(self, Py_ssize_t h, Py_ssize_t a, Py_ssize_t j) noexcept nogil

    @cython.locals(endless=double, j=Py_ssize_t, h=Py_ssize_t, a=Py_ssize_t, least=double)
    cpdef double find_least(self, const double[::1] weights) noexcept

    @cython.locals(endless=double, own=Py_ssize_t, follows=double, k=Py_ssize_t)
    cdef void retreat(self, Py_ssize_t h, Py_ssize_t j, Py_ssize_t end) noexcept nogil

    @cython.locals(endless=double, h=Py_ssize_t, a=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, cost=double, f=Py_ssize_t)
    cdef void find_rest(self) noexcept nogil

    @cython.locals(endless=double, j=Py_ssize_t, k=Py_ssize_t, h=Py_ssize_t, a=Py_ssize_t, end=Py_ssize_t,
        changed=bint)
    cpdef bint close(self, const double[::1] weights, double most, int depth) noexcept

    @cython.locals(j=Py_ssize_t, k=Py_ssize_t)
    cdef void join(self, Py_ssize_t h, Py_ssize_t a, Py_ssize_t end) noexcept nogil

@cython.locals(hour=Py_ssize_t, n=Py_ssize_t, y=Py_ssize_t, place=Py_ssize_t, hours=Py_ssize_t, before=Py_ssize_t)
cpdef void recur_cells(const Py_ssize_t[::1] cells, const double[:, ::1] weights, double[:, ::1] chances,
    double[::1] scale, Py_ssize_t begin, Py_ssize_t end, double large) noexcept
