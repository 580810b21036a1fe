"""Our exact solvers, with their own statement of the costs."""
