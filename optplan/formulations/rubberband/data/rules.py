"""The names of the rules by which trees prove something about RubberBand's plans: solvers write them, the judge reads.

What each claims, and how it is checked, says :mod:`optplan.formulations.rubberband.judge.trees`.
"""

#: Deadlines kept with a confidence.
LABELS = "rubberband-labels"
#: Budgets with minimum charges.
CHARGES = "rubberband-charges"
#: A deadline and a budget at once.
BOTH = "rubberband-both"
#: A deadline and a budget, both kept with a confidence.
BOTH_CHANCE = "rubberband-both-chance"
