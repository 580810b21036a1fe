"""Training on the virtual clock: iterations are done here and at once, whatever the clock shows."""

from __future__ import annotations

from pathlib import Path

from optplan.contracts.conditions import Elapsed
from optplan.contracts.plan import Plan
from optplan.errors import UsageError
from optplan.execution.checkpoints import store
from optplan.execution.protocol import Metrics, Operation
from optplan.execution.records import Checkpoint, plain
from optplan.execution.trainables import Session, import_trainable, make_trainer


class Rehearsal:
    """Trains in this process what a virtual executor reports, and stores checkpoints below ``root``.

    Where segments end by the clock the plan has to know how many iterations that is.
    """

    def __init__(self, plan: Plan, train: str, folder: Path, root: Path) -> None:
        if any(isinstance(each.exit, Elapsed) and each.expected.iteration_s is None for each in plan.segments):
            raise UsageError(
                "train: segments end by the clock, and the plan does not know how long an iteration takes; leave it "
                "out on the virtual clock, or use --executor local"
            )
        self._trainable = import_trainable(train, folder)
        self._root = root

    def __call__(self, operation: Operation, iterations: int) -> tuple[Metrics, Checkpoint | None]:
        """Train a trial up to so many iterations, and store it."""
        checkpoint = None if operation.checkpoint is None else self._root / operation.checkpoint.path
        session = Session(checkpoint=checkpoint, iterations=operation.from_iterations, gpus=operation.workers)
        trainer = make_trainer(self._trainable, operation.configuration, session)
        metrics: Metrics = operation.metrics
        for _ in range(operation.from_iterations, iterations):
            shown = trainer.step()
            if shown is None:
                break
            metrics = plain(dict(shown))
        stored = store(self._root, f"trials/{operation.trial}/checkpoint-{iterations:06d}-000", trainer.save)
        trainer.close()
        return metrics, stored
