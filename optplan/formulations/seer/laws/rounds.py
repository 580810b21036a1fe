"""When the rounds of a search begin and end, and who trains in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.laws.nodes import count_nodes


@dataclass(frozen=True)
class Round:
    """One round of a search."""

    number: int  # from 1
    start_min: float  # when it begins, with its pause
    #: Minutes without training, and after that with it.
    pause_min: float
    training_min: float
    #: GPUs of a trial and number of trials, by increasing GPUs; those without trials are left out.
    groups: tuple[tuple[float, int], ...]

    @property
    def duration_min(self) -> float:
        """Minutes of the round, pause included."""
        return self.pause_min + self.training_min

    @property
    def stop_min(self) -> float:
        """When it ends."""
        return self.start_min + self.duration_min

    @property
    def gpus(self) -> float:
        """GPUs of all its trials together."""
        return sum(gpus * trials for gpus, trials in self.groups)


def list_rounds(instance: SeerInstance, solution: SeerSolution) -> list[Round]:
    """List the rounds of a search whose brackets have a number of trials for each, with their times."""
    rounds: list[Round] = []
    for number in range(solution.rounds):
        rounds.append(
            Round(
                number=number + 1,
                start_min=rounds[-1].stop_min if rounds else 0.0,
                pause_min=instance.resize_min if rounds else 0.0,
                training_min=solution.round_min * instance.eta**number,
                groups=tuple((b.gpus, b.trials[number]) for b in solution.brackets if b.trials[number]),
            )
        )
    return rounds


def sum_spent(instance: SeerInstance, rounds: Sequence[Round]) -> float:
    """Return the GPU-minutes of rounds, pauses included, as the budget counts them: of GPUs held, or of whole nodes."""
    per_node = instance.nodes_paid
    if per_node is None:
        return sum(each.gpus * each.duration_min for each in rounds)
    return per_node * sum(count_nodes(per_node, each.groups) * each.duration_min for each in rounds)
