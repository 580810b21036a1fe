"""Budgeted paths: a path through each of some graphs, at least total value within limits on what all consume, proven.

Knows no paper. The Lagrangian bound comes by secants for one limit (:mod:`~optplan.solvers.paths.single_dual`) and by
column generation for several (:mod:`~optplan.solvers.paths.linked_dual`); the paths within an allowance above it are
enumerated and merged, and the allowance grows until the best plan lies within it. The graphs are of two kinds: in
:mod:`~optplan.solvers.paths.switching` staying is free and switching costs, by the group left where that matters, under
one limit or several; in :mod:`~optplan.solvers.paths.held` only growing costs, under one limit.
"""
