"""RubberBand's data: a search, a training profile, a cloud and a limit; and its decisions.

Glossary: a *trial* is one configuration of a search; a *stage* ends when all its trials have done their iterations; a
*bracket* is a chain of stages on one cluster; *held* machines are those paid for, of which a stage uses some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from optplan.contracts.instance import Instance, Solution
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective, TimeAndMoney
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.formulations.rubberband.data.cloud import Cloud
from optplan.formulations.rubberband.data.experiment import Experiment, Stage, brackets
from optplan.formulations.rubberband.data.training import TrainingProfile
from optplan.quantities import MoneyBudget
from optplan.schema import NUMBER, Fields, FrozenModel, PositiveAmount, Takes, usual
from optplan.units import Amount

__all__ = [
    "BUDGET",
    "DEADLINE",
    "AllocationRule",
    "Objective",
    "Problem",
    "RubberBandInstance",
    "RubberBandSolution",
    "StageAllocation",
]

FoundT = TypeVar("FoundT")

#: The rules by which trees prove something about plans: of budgets with minimum charges; of both limits at once.
CHARGES, BOTH = "rubberband-charges", "rubberband-both"


class Problem(StrEnum):
    """Which of RubberBand's problems is asked."""

    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    CHEAPEST_WITH_CONFIDENCE = "cheapest-with-confidence"
    FASTEST_WITH_CONFIDENCE = "fastest-with-confidence"


class AllocationRule(StrEnum):
    """Which allocations a stage may get."""

    #: Any number of trials at a time: n trials on c slots take ceil(n / c) waves.
    ANY = "any"
    #: The paper's rule: GPUs over the least of a trial are a factor or a multiple of the number of trials.
    FAIR = "fair"


class RubberBandInstance(TimeAndMoney, Instance["RubberBandSolution"]):
    """One problem of RubberBand: a search on a cluster that may change its size between stages."""

    formulation: Literal["rubberband"] = "rubberband"
    version: Literal[1] = 1
    experiment: Takes[Experiment, Fields]  #: The search.
    training: Takes[TrainingProfile, Fields]  #: How long its trials take.
    cloud: Takes[Cloud, Fields]  #: What machines cost, and how long it takes to get them.
    #: What is least: ``cost`` within the deadline, or ``time`` within the budget.
    objective: Takes[Objective, str] = usual(Objective.COST)
    #: Limit on the expected completion time; None where only the frontier is asked.
    deadline_s: PositiveAmount | None = None
    #: Limit on the expected cost, such as ``25usd``; None likewise. Either may be given beside the other: what is least
    #: then has a ceiling, too.
    budget: Takes[MoneyBudget | None, str] = usual(None)
    #: With it the limits given, one or both at once, are kept with at least this probability, and not in the mean:
    #: 0.001 to 0.9999, as probabilities are known to 1e-6, a hundredth of the least risk that may be asked for.
    confidence: Annotated[float, Field(ge=0.001, le=0.9999), NUMBER] | None = None
    mode: Takes[AllocationRule, str] = usual(AllocationRule.ANY)  #: Which allocations a stage may get.

    @model_validator(mode="after")
    def _check(self) -> RubberBandInstance:
        self._check_widths()
        self._check_times()
        self._check_confidence()
        return self

    def _check_confidence(self) -> None:
        if not self.asks_for_both or (self.cloud.is_per_instance and len(self.brackets) == 1):
            return
        problem = f"is {self.confidence:g} and there is a budget; how likely that is kept is not known for "
        if self.cloud.is_per_instance:
            problem += "brackets side by side"
            raise DataError("confidence", problem, "set experiment.order to in-sequence, or leave one of the two out")
        problem += "cloud.billing per-function"
        raise DataError("confidence", problem, "set it to per-instance, or leave one of the two out")

    def _check_widths(self) -> None:
        training, cloud = self.training, self.cloud
        if training.largest_gpus is None and cloud.most_instances is None:
            problem = "are known for any number of GPUs, and nothing limits the number of instances"
            fix = "give training.most_gpus or cloud.most_instances"
            raise DataError("training.seconds_per_iteration", problem, fix)
        needed = math.ceil(training.least_gpus / cloud.gpus_per_instance)
        if cloud.most_instances is not None and needed > cloud.most_instances:
            problem = f"is {cloud.most_instances}; a trial of {training.least_gpus} GPUs needs {needed}"
            raise DataError("cloud.most_instances", problem, "raise it, or lower training.least_gpus")
        factors = training.factor_by_instances
        if factors is not None and needed > factors.instances[-1]:
            problem = f"ends at {factors.instances[-1]} instances; a trial of {training.least_gpus} GPUs spans {needed}"
            raise DataError("training.factor_by_instances", problem, f"measure the factor for {needed} instances")

    def _check_times(self) -> None:
        """Refuse iterations of which a stage is no time that can be reckoned with, on whatever GPUs."""
        training = self.training
        quickest_s, slowest_s = training.extremes()
        most = max(stage.iterations for bracket in self.brackets for stage in bracket)
        for mean_s, words in ((quickest_s, ""), (slowest_s * most, f", and a stage has {most:,} of them")):
            try:
                training.iteration(mean_s), training.pace(mean_s)
            except DataError as error:
                problem = f"takes {slowest_s if words else quickest_s:g} s on some GPUs{words}"
                raise DataError("training.seconds_per_iteration", problem, error.problem) from None

    @cached_property
    def brackets(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages by cluster; see :func:`~optplan.formulations.rubberband.data.experiment.brackets`."""
        return brackets(self.experiment)

    @property
    def problem(self) -> Problem:
        """Which problem is asked."""
        plain = super().problem
        return Problem(plain if self.confidence is None else f"{plain}-with-confidence")

    def fields_of_problem(self, problem: str) -> dict[str, object]:
        """Return the fields to change so that another problem is asked; limits stay, and its own may have to be added.

        A UsageError when there is no such problem, or the probability of one is missing.
        """
        if problem not in list(Problem):
            raise UsageError(f"problem: got {problem!r}; {nearest_name_hint(problem, list(Problem))}")
        plain = problem.removesuffix("-with-confidence")
        if plain == problem:
            return super().fields_of_problem(plain) | {"confidence": None}
        if self.confidence is None:
            raise UsageError(f"problem: {problem} needs the probability; give one, as in --set confidence=0.95")
        return super().fields_of_problem(plain)

    @property
    def has_limit(self) -> bool:
        """Whether that limit has an amount."""
        return (self.deadline_s if self.objective is Objective.COST else self.budget) is not None

    @property
    def ceiling_name(self) -> str:
        """The name of the limit of the objective itself."""
        return BUDGET if self.objective is Objective.COST else DEADLINE

    @property
    def ceiling(self) -> float | None:
        """The most that the objective may be; None where there is no such limit."""
        if self.objective is Objective.TIME:
            return self.deadline_s
        return None if self.budget is None else self.budget.value

    @property
    def limits(self) -> dict[str, float]:
        """The limits by name, that of the objective last: the deadline in seconds, the budget in US dollars.

        Raises
        ------
        UsageError
            When the instance has none that is traded against the objective.
        """
        traded = {self.limit_name: self.limit_as_given(self.limit_name)[0]}
        return traded if self.ceiling is None else traded | {self.ceiling_name: self.ceiling}

    def without_ceiling(self) -> RubberBandInstance:
        """Return the problem without a limit of the objective itself."""
        return self.replace(**{"budget" if self.objective is Objective.COST else "deadline_s": None})

    def of_means(self, share: float) -> RubberBandInstance:
        """Return the problem in which the means keep the limits, divided by a number above zero, and not the runs."""
        changes: dict[str, Any] = {"confidence": None}
        if self.deadline_s is not None:
            changes["deadline_s"] = self.deadline_s / share
        if self.budget is not None:
            changes["budget"] = Amount(self.budget.value / share, self.budget.unit)
        return self.replace(**changes)

    def exchanged(self) -> RubberBandInstance:
        """Return the problem in which the other of time and cost is least; both limits stay."""
        return self.replace(objective=Objective.TIME if self.objective is Objective.COST else Objective.COST)

    def limit_as_given(self, limit: str) -> tuple[float, str]:
        """Return the limit as the instance's own fields state it, and the unit there."""
        try:
            return super().limit_as_given(limit)
        except UsageError as missing:
            if limit != self.limit_name or self.ceiling is None:
                raise
            other = Problem.FASTEST if limit == DEADLINE else Problem.CHEAPEST
            raise UsageError(f"{missing}, or ask what the {self.ceiling_name} alone buys: --problem {other}") from None

    def price_unit(self, limit: str) -> str:
        """Return the unit of a limit's shadow price."""
        return "usd per s of deadline" if limit == DEADLINE else "s per usd of budget"

    @cached_property
    def is_random(self) -> bool:
        """Whether any duration of a plan is random."""
        training, cloud = self.training, self.cloud
        parts = [training.start_s, *training.start_s_on.values(), cloud.provision_s, cloud.initialise_s]
        noisy = training.iteration_noise is not None or training.trial_noise is not None
        return noisy or not all(part.is_constant for part in parts)

    @property
    def asks_for_both(self) -> bool:
        """Whether the probability asked for is one that the budget is kept, too, and not the deadline alone."""
        has_budget = self.objective is Objective.TIME or self.ceiling is not None
        return self.confidence is not None and self.is_random and has_budget

    @property
    def has_minimum_charges(self) -> bool:
        """Whether machines have a minimum charge at all."""
        return self.cloud.is_per_instance and self.cloud.minimum_charge_s > 0

    @cached_property
    def law_cache(self) -> dict[Any, Any]:
        """What laws have computed of this instance, whoever asked."""
        return {}

    @cached_property
    def solver_cache(self) -> dict[Any, Any]:
        """What the solvers' side has computed of this instance; the judge never looks at it."""
        return {}

    @cached_property
    def judge_cache(self) -> dict[Any, Any]:
        """What the judge has computed of this instance; solvers never look at it."""
        return {}


def recall(cache: dict[Any, Any], key: object, make: Callable[[], FoundT]) -> FoundT:
    """Return what a cache has under a key, made the first time that it is asked for."""
    if key not in cache:
        cache[key] = make()
    found: FoundT = cache[key]
    return found


class StageAllocation(FrozenModel):
    """What one stage gets."""

    instances: Annotated[int, Field(ge=1), NUMBER]  #: Held through the stage, m.
    gpus: Annotated[int, Field(ge=1), NUMBER]  #: Used in it, a, of the m * g that are held.

    @classmethod
    def of_stages(cls, instances: Iterable[int], gpus: Iterable[int]) -> tuple[Self, ...]:
        """Return what stages get, from what each holds and uses."""
        return tuple(cls(instances=held, gpus=used) for held, used in zip(instances, gpus, strict=True))


class RubberBandSolution(Solution):
    """What RubberBand decides: for each stage the machines held and the GPUs used."""

    #: One chain of stages for each cluster, in the order of the instance's.
    brackets: tuple[tuple[StageAllocation, ...], ...]
