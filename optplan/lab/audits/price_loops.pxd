# The types with which Cython compiles price_loops.py. Functions without the interpreter are marked nogil: there, a
# local without a type is an error and not merely slow.
cimport cython

@cython.locals(cells=Py_ssize_t, widths=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, price=double, wait=double,
    ahead=double, moved=double, best=double, cost=double, way=Py_ssize_t, turn=Py_ssize_t)
cpdef void go_back(const double[:, ::1] rates, const double[:, ::1] gpus, const double[::1] prices,
    Py_ssize_t per_bucket, double step_s, double[:, ::1] least, signed char[:, ::1] choice) noexcept nogil

@cython.locals(cells=Py_ssize_t, i=Py_ssize_t, j=Py_ssize_t, k=Py_ssize_t, jobs=double, moved=double, stay=double)
cpdef void go_ahead(const double[:, ::1] rates, const double[:, ::1] gpus, Py_ssize_t per_bucket, double step_s,
    const signed char[:, ::1] choice, double[:, ::1] present, double[::1] held) noexcept nogil
