# The types with which Cython compiles runs.py. Methods without the interpreter are marked nogil: there, a local
# without a type is an error and not merely slow.
cimport cython

cdef class RunGraphs:
    cdef const double[:, :, ::1] steps
    cdef const double[:, :, :, ::1] entries
    cdef const Py_ssize_t[::1] starts
    cdef const Py_ssize_t[:, ::1] kinds, own
    cdef const unsigned char[:, :, ::1] used
    cdef const double[::1] room
    cdef public Py_ssize_t num_graphs, num_kinds, num_limits, width
    cdef bint per_kind
    cdef public unsigned char[:, ::1] closed
    cdef unsigned char[:, ::1] seen, free
    cdef Py_ssize_t[::1] changes
    cdef Py_ssize_t[:, ::1] reach, low, high, least_low, most_high
    cdef public double[:, ::1] forced
    cdef double[:, ::1] left, cheapest, enough, too_much
    cdef double[::1] total
    cdef public double[::1] least
    cdef public int[:, ::1] path
    cdef public double[:, ::1] sums
    cdef double[:, :, ::1] tables
    cdef double[:, ::1] run, enter, go, part, suffix, prefix, through
    cdef double[::1] come, must, charge
    cdef public int[:, ::1] runs

    @cython.locals(g=Py_ssize_t, h=Py_ssize_t, limit=Py_ssize_t, changed=bint, left=double)
    cpdef bint refresh(self) noexcept

    @cython.locals(changed=cython.uchar, row=Py_ssize_t, k=Py_ssize_t)
    cdef bint differs(self, Py_ssize_t g) noexcept nogil

    @cython.locals(h=Py_ssize_t, row=Py_ssize_t, low=Py_ssize_t, high=Py_ssize_t)
    cdef void find_open(self, Py_ssize_t g) noexcept nogil

    @cython.locals(endless=double, limit=Py_ssize_t, first=Py_ssize_t, behind=Py_ssize_t, away=double, lowest=double,
        k=Py_ssize_t, row=Py_ssize_t, is_open=bint, best=double, cost=double, f=Py_ssize_t)
    cdef double find_forced(self, Py_ssize_t g, Py_ssize_t h) noexcept nogil

    @cython.locals(endless=double, limit=Py_ssize_t, first=Py_ssize_t, behind=Py_ssize_t, origin=Py_ssize_t,
        end=Py_ssize_t, begin=Py_ssize_t, row=Py_ssize_t, lowest=double, best=double, k=Py_ssize_t, cost=double,
        need=double, f=Py_ssize_t, cut=bint, changed=bint, before=bint)
    cdef bint find_reach(self, Py_ssize_t g, Py_ssize_t h, double left) noexcept nogil

    @cython.locals(endless=double, origin=Py_ssize_t, h=Py_ssize_t, first=Py_ssize_t, behind=Py_ssize_t, c=Py_ssize_t,
        place=Py_ssize_t, weight=double, row=Py_ssize_t, k=Py_ssize_t, cost=double, f=Py_ssize_t)
    cdef void weigh(self, Py_ssize_t g, const double[::1] weights) noexcept nogil

    @cython.locals(j=Py_ssize_t)
    cdef void lengthen(self, Py_ssize_t g, Py_ssize_t h, Py_ssize_t begin, Py_ssize_t known,
        Py_ssize_t end) noexcept nogil

    @cython.locals(endless=double, depth=Py_ssize_t, h=Py_ssize_t, j=Py_ssize_t, first=Py_ssize_t, behind=Py_ssize_t,
        end=Py_ssize_t, k=Py_ssize_t, known=Py_ssize_t)
    cdef void retreat(self, Py_ssize_t g) noexcept nogil

    @cython.locals(endless=double, best=double, second=double, nearest=Py_ssize_t, f=Py_ssize_t, h=Py_ssize_t,
        first=Py_ssize_t, behind=Py_ssize_t, lowest=double, k=Py_ssize_t)
    cdef void leave(self, Py_ssize_t g, Py_ssize_t j) noexcept nogil

    @cython.locals(row=Py_ssize_t, f=Py_ssize_t, ending=double, first=Py_ssize_t, behind=Py_ssize_t, k=Py_ssize_t,
        cost=double)
    cdef void step_back(self, Py_ssize_t g, Py_ssize_t h, Py_ssize_t j, Py_ssize_t end, Py_ssize_t table) noexcept nogil

    @cython.locals(endless=double, best=double, node=Py_ssize_t, kind=Py_ssize_t, h=Py_ssize_t, f=Py_ssize_t,
        k=Py_ssize_t, cost=double)
    cpdef double price(self, Py_ssize_t g, const double[::1] weights) noexcept

    @cython.locals(endless=double, origin=Py_ssize_t, depth=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t, j=Py_ssize_t,
        f=Py_ssize_t, best=double, after=Py_ssize_t, k=Py_ssize_t, cost=double, later=Py_ssize_t, h=Py_ssize_t,
        row=Py_ssize_t)
    cdef void trace(self, Py_ssize_t g, Py_ssize_t node, Py_ssize_t kind) noexcept nogil

    @cython.locals(origin=Py_ssize_t, end=Py_ssize_t, kind=Py_ssize_t, j=Py_ssize_t, node=Py_ssize_t)
    cdef bint admits(self, Py_ssize_t g, const int[:, ::1] nodes, Py_ssize_t at) noexcept nogil

    @cython.locals(j=Py_ssize_t)
    cpdef bint follow(self, Py_ssize_t g, const int[:, ::1] plan) noexcept

    @cython.locals(kind=Py_ssize_t, before=Py_ssize_t, j=Py_ssize_t, node=Py_ssize_t, c=Py_ssize_t)
    cdef void add_up(self, Py_ssize_t g) noexcept nogil

    @cython.locals(endless=double, origin=Py_ssize_t, depth=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, h=Py_ssize_t,
        end=Py_ssize_t, layer=Py_ssize_t, count=Py_ssize_t, joins=bint)
    cpdef Py_ssize_t fix_by_reduced_cost(self, Py_ssize_t g, const double[::1] weights, double most) noexcept

    @cython.locals(endless=double, row=Py_ssize_t, first=Py_ssize_t, behind=Py_ssize_t, own=Py_ssize_t,
        lowest=double, k=Py_ssize_t, left=double, f=Py_ssize_t, best=double, cost=double)
    cdef void step_on(self, Py_ssize_t g, Py_ssize_t h, Py_ssize_t j, bint goes_on, bint begins,
        Py_ssize_t table) noexcept nogil
