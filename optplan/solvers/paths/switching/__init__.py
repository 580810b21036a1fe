"""Layered graphs in which staying is free and switching costs, by the group of the node left where that matters.

:class:`LinkedGraphs` is a family for every algorithm of :mod:`optplan.solvers.paths`, of one limit or of several;
:class:`Trails` are the same graphs with nodes that remember which groups a path has been in, for branching.
"""

from optplan.solvers.paths.switching.graphs import LinkedGraphs
from optplan.solvers.paths.switching.trails import Trails, follow_trails

__all__ = ["LinkedGraphs", "Trails", "follow_trails"]
