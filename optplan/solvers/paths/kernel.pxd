# The types with which Cython compiles kernel.py. Methods without the interpreter are marked nogil: there, a local
# without a type is an error and not merely slow.
cimport cython

cdef class LayeredCosts:
    cdef const double[:, ::1] value
    cdef const double[:, :, ::1] consumption, enter_value
    cdef const double[:, :, :, ::1] enter_consumption
    cdef const unsigned char[:, ::1] closed
    cdef const Py_ssize_t[::1] starts, lengths
    cdef Py_ssize_t nodes, groups, size, limits
    cdef bint once
    cdef double[::1] run
    cdef double[:, ::1] enter, reached, least, onwards
    cdef unsigned char[::1] some_closed

    @cython.locals(endless=double, k=Py_ssize_t, limit=Py_ssize_t, weight=double)
    cdef void weigh_nodes(self, double[::1] out, Py_ssize_t row, const double[::1] multipliers,
        double value_weight) noexcept nogil

    @cython.locals(f=Py_ssize_t, k=Py_ssize_t, limit=Py_ssize_t, weight=double)
    cdef void weigh_entries(self, double[:, ::1] out, Py_ssize_t row, const double[::1] multipliers,
        double value_weight) noexcept nogil

    @cython.locals(run=double[::1], enter=double[:, ::1], reached=double[:, ::1], least=double[:, ::1],
        weights="const double[::1]", size=Py_ssize_t, groups=Py_ssize_t, asked=Py_ssize_t, position=Py_ssize_t,
        layers=Py_ssize_t, j=Py_ssize_t, row=Py_ssize_t, k=Py_ssize_t, f=Py_ssize_t, best=double, left=Py_ssize_t, node=Py_ssize_t)
    cpdef void find_best_nodes(self, const Py_ssize_t[::1] positions, const double[:, ::1] multipliers,
        double value_weight, int[:, ::1] nodes) noexcept

    @cython.locals(reached=double[:, ::1], f=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t, one=double, two=double,
        three=double, four=double, k=Py_ssize_t)
    cdef void find_least(self, Py_ssize_t layer) noexcept nogil

    @cython.locals(node=Py_ssize_t)
    cdef Py_ssize_t find_cheapest(self, Py_ssize_t layer, Py_ssize_t group) noexcept nogil

    @cython.locals(position=Py_ssize_t, j=Py_ssize_t, row=Py_ssize_t, k=Py_ssize_t, f=Py_ssize_t)
    cpdef void find_costs_through(self, const double[::1] multipliers, double[:, ::1] through) noexcept

    @cython.locals(endless=double, position=Py_ssize_t, j=Py_ssize_t, row=Py_ssize_t, after=Py_ssize_t, k=Py_ssize_t,
        f=Py_ssize_t, best=double)
    cpdef void find_completion_bounds(self, const double[::1] multipliers, double[:, ::1] rest, double[:, ::1] onwards) noexcept

    @cython.locals(asked=Py_ssize_t, position=Py_ssize_t, limit=Py_ssize_t, used=double, left=Py_ssize_t, comes=bint,
        node=Py_ssize_t, j=Py_ssize_t, row=Py_ssize_t, at=Py_ssize_t, f=Py_ssize_t)
    cpdef void add_up_paths(self, const Py_ssize_t[::1] positions, const int[:, ::1] nodes, double[::1] total_value,
        double[:, ::1] total_consumption) noexcept

@cython.locals(c=Py_ssize_t)
cdef bint dominates(double[:, ::1] entries, Py_ssize_t one, Py_ssize_t other) noexcept nogil

@cython.locals(width=Py_ssize_t, begun=Py_ssize_t, last=double, side=cython.uchar, left=double, right=double, tied=bint,
    c=Py_ssize_t, other=Py_ssize_t, kept=bint, latest=Py_ssize_t[2])
cdef Py_ssize_t merge_lists(double[:, ::1] first, int[::1] first_label, Py_ssize_t start, Py_ssize_t end,
    double[::1] add, double[:, ::1] second, int[::1] second_label, Py_ssize_t begin, Py_ssize_t stop,
    double[::1] plus, double most_first, double most_second, double[:, ::1] out, int[::1] out_label,
    unsigned char[::1] out_side, Py_ssize_t at, bint entering) noexcept nogil

cdef class PathSearch:
    cdef LayeredCosts costs
    cdef const double[::1] multipliers
    cdef const Py_ssize_t[::1] order
    cdef double allowance, rounding, limit
    cdef Py_ssize_t graph, layer, work, num_open
    cdef public Py_ssize_t num_kept, num_ends
    cdef Py_ssize_t num_labels
    cdef double[:, ::1] rest, onwards, enter, common, lists, made, exit, spare, other
    cdef double[::1] run_cost, cheapest, nothing, plus, exit_least
    cdef int[::1] lists_label, made_label, exit_label, spare_label, other_label, parent, node, entered
    cdef Py_ssize_t[::1] first, last, open, exit_end, bounds
    cdef public double[:, ::1] ends
    cdef public int[::1] ends_label
    cdef public Py_ssize_t[::1] ends_of
    cdef unsigned char[::1] side, is_open

    @cython.locals(position=Py_ssize_t)
    cpdef bint run(self, Py_ssize_t work) except *

    @cython.locals(layer=Py_ssize_t)
    cpdef void trace(self, int label, Py_ssize_t graph, int[:] nodes) noexcept

    @cython.locals(best=double, costs=LayeredCosts, enter=double[:, ::1], row=Py_ssize_t, k=Py_ssize_t)
    cdef void _limit_costs(self, Py_ssize_t position) noexcept

    @cython.locals(rest=double[:, ::1], enter=double[:, ::1], costs=LayeredCosts, nodes=Py_ssize_t, limits=Py_ssize_t, size=Py_ssize_t,
        row=Py_ssize_t, at=Py_ssize_t, k=Py_ssize_t, place=Py_ssize_t, entry=double[::1], limit=Py_ssize_t,
        c=Py_ssize_t)
    cdef void _begin(self, Py_ssize_t position) except *

    @cython.locals(costs=LayeredCosts, j=Py_ssize_t, size=Py_ssize_t, row=Py_ssize_t, enters=bint,
        place=Py_ssize_t, k=Py_ssize_t, kept=Py_ssize_t, limit=Py_ssize_t)
    cdef void _advance(self, Py_ssize_t position) except *

    @cython.locals(endless=double, costs=LayeredCosts, nodes=Py_ssize_t, groups=Py_ssize_t, limits=Py_ssize_t, j=Py_ssize_t,
        row=Py_ssize_t, at=Py_ssize_t, f=Py_ssize_t, k=Py_ssize_t, place=Py_ssize_t, begin=Py_ssize_t,
        end=Py_ssize_t, most=double, source=double[:, ::1], label=int[::1], add=double[::1], start=Py_ssize_t,
        stop=Py_ssize_t, most_first=double, most_second=double, limit=Py_ssize_t, size=Py_ssize_t)
    cdef void _enter(self, Py_ssize_t position) except *

    @cython.locals(least=double, place=Py_ssize_t, c=Py_ssize_t)
    cdef void _open_node(self, Py_ssize_t k, Py_ssize_t begin, Py_ssize_t end) except *

    @cython.locals(endless=double, size=Py_ssize_t, f=Py_ssize_t, begin=Py_ssize_t,
        count=Py_ssize_t, least=double, place=Py_ssize_t, c=Py_ssize_t)
    cdef void _merge_exits(self, Py_ssize_t row) except *

    @cython.locals(count=Py_ssize_t, total=Py_ssize_t, widest=Py_ssize_t, place=Py_ssize_t, k=Py_ssize_t,
        pairs=Py_ssize_t, middle=Py_ssize_t, stop=Py_ssize_t)
    cdef Py_ssize_t _gather(self, Py_ssize_t low, Py_ssize_t high, double most) except -1

    @cython.locals(count=Py_ssize_t, begin=Py_ssize_t, place=Py_ssize_t, c=Py_ssize_t)
    cdef void _end(self) except *

    cdef void _swap_spares(self) noexcept

    @cython.locals(label=int)
    cdef int _add_label(self, int parent, int node, int layer) except -2

    @cython.locals(more=Py_ssize_t)
    cdef void _make_room(self, Py_ssize_t entries) except *
