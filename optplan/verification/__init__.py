"""The judge: checks a result, and derives its bounds anew, without any solver or algebraic model."""

from optplan.verification.capped import verify_capped
from optplan.verification.judge import evaluate, require_own, verify

__all__ = ["evaluate", "require_own", "verify", "verify_capped"]
