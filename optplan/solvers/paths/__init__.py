"""Budgeted paths: a path through each of some graphs, at least total value within limits on what all consume, proven.

Knows no paper. The Lagrangian bound comes by secants for one limit (:mod:`~optplan.solvers.paths.secants`) and by
column generation for several (:mod:`~optplan.solvers.paths.bounds`); the paths within an allowance above it are
enumerated and merged, and the allowance grows until the best plan lies within it. The graphs are of three kinds: in
:mod:`~optplan.solvers.paths.layered` a switch costs the same from wherever one comes and there is one limit, in
:mod:`~optplan.solvers.paths.switching` it may depend on the group left and there may be several, in
:mod:`~optplan.solvers.paths.held` only growing costs.
"""
