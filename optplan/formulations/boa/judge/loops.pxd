# The types with which Cython compiles loops.py.
cimport cython

@cython.locals(endless=double, nodes=Py_ssize_t, groups=Py_ssize_t, layer=Py_ssize_t, k=Py_ssize_t, f=Py_ssize_t,
    reached=double, found=double)
cpdef double find_least_path(const double[:, ::1] run, const double[:, :, ::1] enter, const Py_ssize_t[::1] group,
    double[::1] best, double[::1] least) noexcept

@cython.locals(hour=Py_ssize_t, n=Py_ssize_t, y=Py_ssize_t, summed=double)
cpdef void recur_cells(const double[:, ::1] weights, double[:, ::1] chances, double[::1] scale, Py_ssize_t begin,
    Py_ssize_t end, double large) noexcept
