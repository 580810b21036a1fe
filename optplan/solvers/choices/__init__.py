"""Independent choices linked by limits: options of tables, and real widths on curves in closed form.

Knows no paper. :class:`LinkedChoices` is a family for the bounds of :mod:`optplan.solvers.paths`, whatever the number
of limits; with one limit :mod:`~optplan.solvers.choices.one_limit` finds the multiplier to the last bit.
:mod:`optplan.solvers.slopes` is the same problem with one limit and whole frontiers in one sort.
"""

from optplan.solvers.choices.alternatives import CurveWidths, LinkedChoices, TableOptions

__all__ = ["CurveWidths", "LinkedChoices", "TableOptions"]
