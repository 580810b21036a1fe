"""Independent choices under one budget: the optimum, its proof, and the whole frontier.

Each row is a choice among options with a consumption and a value, or a real width on a closed-form
curve, and rows may mix two options. The engine knows no paper; problem (1) of BOA (Theorem B.1) is
one use.
"""

from optplan.solvers.slopes.blocks import (
    LazyTableBlock,
    SharedTableBlock,
    TableChoice,
)
from optplan.solvers.slopes.budget import (
    OutOfReach,
    SlopesSolution,
    dual_bound,
    evaluate_choices,
    solve_budget,
)
from optplan.solvers.slopes.frontier import (
    SlopesCurve,
    SlopesFrontier,
    SlopesPoint,
    trace_frontier,
)
from optplan.solvers.slopes.segments import Block, Bracket
from optplan.solvers.slopes.smooth import SmoothBlock, SmoothChoice, SmoothForm

__all__ = [
    "Block",
    "Bracket",
    "LazyTableBlock",
    "OutOfReach",
    "SharedTableBlock",
    "SlopesCurve",
    "SlopesFrontier",
    "SlopesPoint",
    "SlopesSolution",
    "SmoothBlock",
    "SmoothChoice",
    "SmoothForm",
    "TableChoice",
    "dual_bound",
    "evaluate_choices",
    "solve_budget",
    "trace_frontier",
]
