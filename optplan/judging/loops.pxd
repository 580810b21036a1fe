# The types with which Cython compiles loops.py.
cimport cython

@cython.locals(endless=double, nodes=Py_ssize_t, groups=Py_ssize_t, limits=Py_ssize_t, layer=Py_ssize_t, k=Py_ssize_t,
    f=Py_ssize_t, limit=Py_ssize_t, price=double, low=double, found=double)
cpdef double find_least_path(const double[::1] prices, const double[:, ::1] run_value, const double[:, :, ::1] run_use,
    const double[:, :, :] enter_value, const double[:, :, :, :] enter_use, const Py_ssize_t[::1] group,
    double[:, ::1] room, double[:, ::1] entry) noexcept

@cython.locals(endless=double, kept=Py_ssize_t, begin=Py_ssize_t, total=Py_ssize_t, old=Py_ssize_t, steps=Py_ssize_t,
    own=Py_ssize_t, least=double, step=Py_ssize_t, count=Py_ssize_t, of_group=bint, place=Py_ssize_t, at=double,
    over=double)
cpdef Py_ssize_t sweep_undominated(Py_ssize_t[::1] order, const Py_ssize_t[:] group, const double[:] first,
    const double[:] low, const double[:] high, double[:, ::1] room, bint goes_on) noexcept nogil

cdef class EndLists:
    cdef const double[:, :, ::1] steps
    cdef const double[:, :, :, ::1] entries
    cdef const Py_ssize_t[::1] group
    cdef const double[::1] prices
    cdef double[:, ::1] reach
    cdef double ceiling
    cdef object stopwatch
    cdef Py_ssize_t width, compared, at_once
    cdef double[:, ::1] lists, made, shared, other, joined
    cdef Py_ssize_t[::1] first, last, bounds, shared_end
    cdef double[::1] shared_least, nothing

    @cython.locals(endless=double, nodes=Py_ssize_t, groups=Py_ssize_t, layer=Py_ssize_t, k=Py_ssize_t, f=Py_ssize_t,
        run=double, came=double, c=Py_ssize_t, best=double)
    cdef double _reach_nodes(self) noexcept

    @cython.locals(nodes=Py_ssize_t, at=Py_ssize_t, k=Py_ssize_t, f=Py_ssize_t, begun=Py_ssize_t, room=double,
        begin=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef Py_ssize_t go_back(self, Py_ssize_t layer) except -1

    @cython.locals(f=Py_ssize_t, count=Py_ssize_t)
    cpdef object list_paths(self)

    @cython.locals(endless=double, total=Py_ssize_t, groups=Py_ssize_t, f=Py_ssize_t,
        least=double, k=Py_ssize_t, count=Py_ssize_t, place=Py_ssize_t, c=Py_ssize_t)
    cdef void _share(self, Py_ssize_t layer) except *

    @cython.locals(nodes=Py_ssize_t, total=Py_ssize_t, count=Py_ssize_t, k=Py_ssize_t, begun=Py_ssize_t,
        place=Py_ssize_t, c=Py_ssize_t, pairs=Py_ssize_t, at=Py_ssize_t, one=Py_ssize_t, middle=Py_ssize_t,
        stop=Py_ssize_t)
    cdef Py_ssize_t _gather(self, Py_ssize_t layer, Py_ssize_t left, double room, Py_ssize_t only) except -1

    @cython.locals(cost=double, c=Py_ssize_t)
    cdef double _weigh(self, const double[:, ::1] points, Py_ssize_t place) noexcept

    @cython.locals(begun=Py_ssize_t, width=Py_ssize_t, from_one=bint, c=Py_ssize_t, ahead=double, kept=bint,
        other=Py_ssize_t)
    cdef Py_ssize_t _merge(self, const double[:, ::1] one, Py_ssize_t begin, Py_ssize_t end, const double[::1] more,
        const double[:, ::1] two, Py_ssize_t start, Py_ssize_t stop, double room, double[:, ::1] out,
        Py_ssize_t at) except -1
