"""Layered graphs in which staying is free and switching costs, by the group of the node left where that matters.

:class:`LinkedGraphs` is a family for every algorithm of :mod:`optplan.solvers.paths`, of one limit or of several.
"""

from optplan.solvers.paths.switching.graphs import LinkedGraphs

__all__ = ["LinkedGraphs"]
