"""Levels: pure plans under several binding limits, by the kinds of nodes that paths visit and many multipliers at once.

:mod:`~optplan.solvers.paths.levels.sieve` goes through the levels; its graphs are laid out and swept in
:mod:`~optplan.solvers.paths.levels.blocks`, listed in :mod:`~optplan.solvers.paths.levels.segments`, and bounded by
:mod:`~optplan.solvers.paths.levels.rows`. Below it, :mod:`~optplan.solvers.paths.levels.board` joins
:mod:`~optplan.solvers.paths.levels.totals`.
"""
