"""What the judge takes for equal: its one statement of what is within a limit."""

from optplan.contracts.judgement import JUDGE_TOLERANCE

#: Relative tolerance of every comparison of the judge; a plan exactly at its limit is feasible.
TOLERANCE = JUDGE_TOLERANCE

#: Absolute tolerance on a probability: what the grids of the convolutions may be off.
PROBABILITY_TOLERANCE = 1e-6
