# The types with which Cython compiles simplex.py; see runs.pxd.
cimport cython
from optplan.solvers.paths.runs cimport RunGraphs

cdef class RestrictedMaster:
    cdef RunGraphs graphs
    cdef const double[::1] limits
    cdef public double unit, penalty, bound, value_weight
    cdef public Py_ssize_t num_graphs, num_limits, base, size, count, num_active, num_recent, now, memory, pivots, passes
    cdef public double[::1] value, levels, costs, duals, weights, best
    cdef double[::1] entering, row_sign, row_side
    cdef Py_ssize_t[::1] row_graph, row_kind, row_of
    cdef double[:, ::1] run_duals
    cdef unsigned char[::1] bounded
    cdef public int[:, ::1] runs
    cdef Py_ssize_t[::1] trial, changes
    cdef double[:, ::1] partial
    cdef public double[:, ::1] entries, inverse
    cdef public Py_ssize_t[::1] owner, basis, active, used_at, recent
    cdef public int[:, ::1] nodes
    cdef public unsigned char[::1] allowed, kept

    cpdef void reserve(self) except *

    @cython.locals(c=Py_ssize_t, limit=Py_ssize_t, j=Py_ssize_t, kind=Py_ssize_t)
    cpdef void add(self, Py_ssize_t g) noexcept

    cdef void keep(self, Py_ssize_t c) noexcept nogil

    cdef void admit(self, Py_ssize_t c) noexcept nogil

    @cython.locals(count=Py_ssize_t, at=Py_ssize_t, c=Py_ssize_t, g=Py_ssize_t, admitted=bint)
    cpdef void allow(self) noexcept

    @cython.locals(g=Py_ssize_t, kind=Py_ssize_t, side=Py_ssize_t, bound=Py_ssize_t, at=Py_ssize_t)
    cpdef void bound_runs(self, const int[:, :, ::1] bounds) noexcept

    @cython.locals(at=Py_ssize_t, column=Py_ssize_t)
    cpdef void load(self, const Py_ssize_t[::1] basis) noexcept

    @cython.locals(size=Py_ssize_t, row=Py_ssize_t, column=Py_ssize_t, at=Py_ssize_t, pivot=double, each=Py_ssize_t,
        replaceable=bint, place=Py_ssize_t, kind=Py_ssize_t, side=Py_ssize_t)
    cdef bint enter_all(self, const Py_ssize_t[::1] basis, Py_ssize_t count) noexcept

    @cython.locals(at=Py_ssize_t)
    cdef bint keeps(self, const Py_ssize_t[::1] basis, Py_ssize_t column) noexcept nogil

    @cython.locals(value=double)
    cdef double cost(self, Py_ssize_t column) noexcept nogil

    @cython.locals(is_excess=bint)
    cdef bint is_artificial(self, Py_ssize_t column) noexcept nogil

    @cython.locals(graphs=Py_ssize_t, row=Py_ssize_t, total=double, limit=Py_ssize_t, each=Py_ssize_t, share=double,
        number=Py_ssize_t)
    cdef void direct(self, Py_ssize_t column) noexcept nogil

    @cython.locals(size=Py_ssize_t, scale=double, each=Py_ssize_t, other=Py_ssize_t, factor=double)
    cdef void pivot(self, Py_ssize_t row, Py_ssize_t column) noexcept nogil

    @cython.locals(row=Py_ssize_t)
    cpdef void begin(self, double value_weight) noexcept

    @cython.locals(each=Py_ssize_t, row=Py_ssize_t, g=Py_ssize_t, kind=Py_ssize_t, dual=double)
    cdef void price_out(self) noexcept nogil

    @cython.locals(graphs=Py_ssize_t, limits=Py_ssize_t, _step=Py_ssize_t, found=Py_ssize_t, least=double,
        limit=Py_ssize_t, at=Py_ssize_t, c=Py_ssize_t, reduced=double, row=Py_ssize_t, ratio=double, each=Py_ssize_t,
        level=double, kinds=Py_ssize_t, kind=Py_ssize_t, none=Py_ssize_t)
    cpdef bint optimise(self, Py_ssize_t most) noexcept

    @cython.locals(graphs=Py_ssize_t, limits=Py_ssize_t, unit=double, _round=Py_ssize_t, paid=double, limit=Py_ssize_t,
        weight=double, total=double, better=Py_ssize_t, g=Py_ssize_t, least=double, share=double, c=Py_ssize_t,
        each=Py_ssize_t, kind=Py_ssize_t)
    cpdef int generate(self, double cutoff, Py_ssize_t most, bint anew) noexcept

    @cython.locals(total=double, row=Py_ssize_t, column=Py_ssize_t)
    cpdef double count_penalised(self) noexcept

    @cython.locals(graphs=Py_ssize_t, limits=Py_ssize_t, best=double, at=Py_ssize_t, c=Py_ssize_t,
        place=Py_ssize_t, column=Py_ssize_t, fits=bint, limit=Py_ssize_t, level=double, g=Py_ssize_t)
    cpdef double combine(self, const Py_ssize_t[::1] starts, const Py_ssize_t[::1] order, const double[::1] reduced,
        const double[:, ::1] rest, double ceiling, double paid, Py_ssize_t steps, Py_ssize_t[::1] chosen) noexcept
