"""The names of the rules by which trees prove something about RubberBand's plans: solvers write them, the judge reads.

What each claims, and how it is checked, says :mod:`optplan.formulations.rubberband.judge.trees`.
"""

#: Budgets with minimum charges.
CHARGES = "rubberband-charges"
#: A deadline and a budget at once.
BOTH = "rubberband-both"
