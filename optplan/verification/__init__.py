"""The judge: checks a result against its instance without any solver or algebraic model.

The formulation's evaluator recomputes objective and constraints from the decisions. Bounds are re-derived from their
certificates: a Lagrangian one by one pass of best paths, an enumerated one by enumerating, anew and by an algorithm of
its own, everything within the certificate's allowance.
"""

from optplan.verification.capped import verify_capped
from optplan.verification.judge import evaluate, require_own, verify

__all__ = ["evaluate", "require_own", "verify", "verify_capped"]
