"""BOA's data: job classes, GPU types, allowed widths and the budget.

Glossary: a *class* is a stream of jobs with the same sizes and speedups; an *epoch* is a phase of a job with one
speedup curve; a *width* is the number of GPUs that a job holds; a *branch* is one row of widths, taken by a fraction
of a class's jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, model_validator

from optplan.contracts.instance import Instance
from optplan.errors import DataError, UsageError
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.formulations.boa.data.options import (
    Options,
    check_curve,
    check_finishing,
    check_reference,
    list_allowed,
    list_options,
    warn_of_hulls,
)
from optplan.formulations.boa.data.problems import BoaSolution, Branch, Budget, PeakLimit, Policy, Problem
from optplan.schema import ByName, Fields, FloatArray, IntArray, Takes, usual
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, TableSpeedup
from optplan.units import PERIOD_HOURS, BudgetUnit

__all__ = [
    "BUDGET",
    "DUE",
    "FLOOR",
    "QUOTA",
    "BoaInstance",
    "BoaSolution",
    "Branch",
    "Budget",
    "Policy",
    "Problem",
    "has_real_widths",
]

#: The limits' names in certificates, shadow prices and relaxations.
BUDGET = "budget"
QUOTA = "quota."
DUE = "due."
FLOOR = "floor."

#: Up to how often its floor jobs of a class may run at most, where mixed plans may have some of both: what is summed up
#: then is so much larger than the floor that shares of jobs decide in digits which sums do not have.
_MOST_FLOORS = 1000.0
#: What a limit may be exceeded by, relative to itself: a floor is stated such that this is relative to the floor.
_TOLERANCE = 1e-9

#: ``true`` or nothing; ``false`` is what is the default: one instance has one hash.
_Yes = Annotated[Literal[True] | None, BeforeValidator(lambda said: None if said is False else said)]


class BoaInstance(Instance[BoaSolution]):
    """One problem of BOA: streams of jobs, and a time-average budget."""

    LATER: ClassVar[frozenset[str]] = frozenset({"most_gpus", "whole_nodes"})

    formulation: Literal["boa"] = "boa"
    version: Literal[1] = 1
    classes: Takes[ByName[JobClass], Mapping[str, JobClass | Fields]]  #: The job classes by name.
    #: The GPU types by name. With several of them sizes are times on one GPU of a reference type, and speedups are
    #: speeds relative to that; a class cannot run on a type for which it has no speedup.
    gpu_types: Takes[ByName[GpuType], Mapping[str, GpuType | Fields]]
    #: Allowed widths of the classes that have none of their own.
    widths: Takes[Widths | None, Fields | str] = usual(None)
    #: Time-average GPUs (``120gpu``), or money per hour, day or month (``30000usd/month``); None where only the
    #: frontier is asked.
    budget: Takes[Budget | None, str] = usual(None)
    #: problem, policy: Which problem, and what kind of plan.
    problem: Takes[Problem, str] = usual(Problem.RESCALING)
    policy: Takes[Policy, str] = usual(Policy.PURE)
    #: A limit on the GPUs in use at once, kept with a probability; None for none.
    most_gpus: Takes[PeakLimit | None, Fields] = usual(None)
    #: Whether jobs share no nodes: a job on k GPUs pays for ceil(k / gpus_per_node) nodes; None where it pays for k.
    whole_nodes: Takes[_Yes, bool] = usual(None)

    @model_validator(mode="after")
    def _check(self) -> BoaInstance:
        if not self.classes:
            raise DataError("classes", "is empty", "add at least one job class")
        if not self.gpu_types:
            raise DataError("gpu_types", "is empty", "add at least one, as in {t4: {}}")
        for name, job_class in self.classes.items():
            self._check_class(name, job_class)
        self._check_budget()
        self._check_nodes()
        if self.commits:
            self._check_commitments()
        if self.problem is Problem.CONTINUOUS:
            self._refuse_limits_of_classes()
            warn_of_hulls(
                (f"classes.{name}.speedup.{gpu_type}", self._allowed(name, job_class, gpu_type), curve)
                for name, job_class in self.classes.items()
                for gpu_type, curve in job_class.speedup.items()
            )
        elif self.policy is Policy.MIXED:
            self._refuse_floors_far_below()
        return self

    def _refuse_floors_far_below(self) -> None:
        """Refuse floors that widths fall short of while others run on so many GPUs that a floor is lost in rounding."""
        for name, floor in self.floors.items():
            running = self.running(name)
            most, least = running.max(axis=1).sum(), running.min(axis=1).sum()
            if most > _MOST_FLOORS * floor > _MOST_FLOORS * least:
                problem = f"got {floor:g}, and some widths run on up to {most:.4g} GPUs"
                fix = f"leave out widths that run on over {_MOST_FLOORS:,.0f} times that, or solve policy {Policy.PURE}"
                raise DataError(f"classes.{name}.least_mean_gpus", problem, fix)

    def _refuse_limits_of_classes(self) -> None:
        fix = f"solve {Problem.WHOLE} or {Problem.RESCALING}, for mixed plans with policy {Policy.MIXED}"
        for name in self.due_s:
            raise DataError(f"classes.{name}.most_mean_jct_s", "due dates need whole widths", fix)
        for name in self.floors:
            raise DataError(f"classes.{name}.least_mean_gpus", "floors need whole widths", fix)

    def _check_nodes(self) -> None:
        if not self.whole_nodes:
            return
        for name, gpu_type in self.gpu_types.items():
            if gpu_type.gpus_per_node is None:
                raise DataError(f"gpu_types.{name}.gpus_per_node", "is missing", "whole_nodes needs it")
        if self.problem is Problem.CONTINUOUS:
            fix = f"solve {Problem.WHOLE} or {Problem.RESCALING}, or leave whole_nodes out"
            raise DataError("whole_nodes", "nodes are whole, and the continuous problem has real widths", fix)

    def _check_commitments(self) -> None:
        path = f"gpu_types.{next(name for name, each in self.gpu_types.items() if each.commitments)}.commitments"
        if self.problem is Problem.CONTINUOUS:
            fix = f"solve {Problem.WHOLE} or {Problem.RESCALING}, or leave commitments out"
            raise DataError(path, "commitments need whole widths", fix)
        if self.most_gpus is not None:
            raise DataError(path, "stands beside most_gpus, and no solver takes both", "leave one of them out")

    def _check_class(self, name: str, job_class: JobClass) -> None:
        self._check_types(f"classes.{name}.speedup", job_class.speedup)
        for field in ("rescale_s_on", "type_change_s_from"):
            self._check_types(f"classes.{name}.{field}", getattr(job_class, field))
        for left, entered in job_class.type_change_s_from.items():
            self._check_types(f"classes.{name}.type_change_s_from.{left}", entered)
        for gpu_type, curve in job_class.speedup.items():
            widths = self._allowed(name, job_class, gpu_type)
            if len(self.gpu_types) == 1:
                check_reference(f"classes.{name}.speedup.{gpu_type}", curve, job_class.reference_width)
            if not isinstance(curve, TableSpeedup):
                check_curve(f"classes.{name}.speedup.{gpu_type}", curve, widths)
        check_finishing(
            f"classes.{name}", {one: self._allowed(name, job_class, one) for one in job_class.speedup}, self.gpu_types
        )

    def _check_types(self, path: str, named: Mapping[str, object]) -> None:
        unknown = sorted(set(named) - set(self.gpu_types))
        if unknown:
            problem = f"{unknown[0]!r} is not among gpu_types ({', '.join(self.gpu_types)})"
            raise DataError(path, problem, "add it there or correct the name")

    def _allowed(self, name: str, job_class: JobClass, gpu_type: str) -> IntArray:
        rule, nodes = job_class.widths or self.widths, self.gpu_types[gpu_type].gpus_per_node
        return list_allowed(f"classes.{name}.widths", rule, job_class.speedup[gpu_type], gpu_type, nodes)

    def _check_budget(self) -> None:
        if self.budget is None or self.budget.unit is BudgetUnit.GPU:
            return
        if self.budget.unit not in PERIOD_HOURS:
            fix = "BOA's budget is a rate: time-average GPUs (120gpu) or money per hour, day or month (30000usd/month)"
            raise DataError("budget", f"got {str(self.budget)!r}", fix)
        for name, gpu_type in self.gpu_types.items():
            if gpu_type.price_usd_per_hour is None:
                raise DataError(f"gpu_types.{name}.price_usd_per_hour", "is missing", "a budget in money needs it")

    @property
    def only_gpu_type(self) -> str:
        """The name of the one GPU type; a UsageError where there are several."""
        if len(self.gpu_types) > 1:
            raise UsageError(f"this needs one GPU type; the instance has {', '.join(self.gpu_types)}; keep one of them")
        return next(iter(self.gpu_types))

    def allowed_widths(self, name: str, gpu_type: str | None = None) -> IntArray:
        """Return the widths (K,) that a class may get on a GPU type (the only one), increasing."""
        options = self.options(name)
        return options.widths[options.of_type(self.only_gpu_type if gpu_type is None else gpu_type)]

    def speeds(self, name: str, gpu_type: str | None = None) -> FloatArray:
        """Return s_ij(k) of a class at those widths, shape (E, K) or (1, K) when the same in every epoch."""
        options = self.options(name)
        return options.speeds[:, options.of_type(self.only_gpu_type if gpu_type is None else gpu_type)]

    def options(self, name: str) -> Options:
        """Return what jobs of a class may hold."""
        if name not in self._options:
            job_class = self.classes[name]
            self._options[name] = list_options(
                job_class,
                self.gpu_types,
                {gpu_type: self._allowed(name, job_class, gpu_type) for gpu_type in job_class.speedup},
                self.prices_in_budget,
                self.paid_gpus,
                rescaling=self.problem is Problem.RESCALING,
            )
        return self._options[name]

    @cached_property
    def _options(self) -> dict[str, Options]:
        return {}

    @cached_property
    def is_typed(self) -> bool:
        """Whether it matters what GPUs a job holds, and not only how many: several types, or interruptions."""
        return len(self.gpu_types) > 1 or any(gpu_type.spot is not None for gpu_type in self.gpu_types.values())

    @property
    def waits_for_nodes(self) -> bool:
        """Whether nodes of some type take time to start."""
        return any(gpu_type.start_s for gpu_type in self.gpu_types.values())

    @property
    def is_mixed(self) -> bool:
        """Whether jobs of a class may be divided: in mixed plans, and with real widths, which stand for that."""
        return self.policy is Policy.MIXED or self.problem is Problem.CONTINUOUS

    @cached_property
    def budget_unit(self) -> BudgetUnit:
        """What :attr:`limits` count the budget in: GPUs where there is one type, or no price, or a budget in GPUs."""
        priced = all(gpu_type.price_usd_per_hour is not None for gpu_type in self.gpu_types.values())
        if len(self.gpu_types) == 1 or not priced or (self.budget is not None and self.budget.unit is BudgetUnit.GPU):
            return BudgetUnit.GPU
        return BudgetUnit.USD_PER_HOUR

    @cached_property
    def prices_in_budget(self) -> dict[str, float]:
        """By GPU type, what one GPU counts in the budget: 1, or US dollars per hour; with commitments at least."""
        prices = self.prices_on_demand
        return {name: gpu_type.least_price * prices[name] for name, gpu_type in self.gpu_types.items()}

    @property
    def prices_on_demand(self) -> dict[str, float]:
        """By GPU type, what one GPU on demand counts in the budget: 1, or US dollars per hour."""
        if self.budget_unit is BudgetUnit.GPU:
            return dict.fromkeys(self.gpu_types, 1.0)
        return {name: gpu_type.price_usd_per_hour or 0.0 for name, gpu_type in self.gpu_types.items()}

    @cached_property
    def commits(self) -> bool:
        """Whether GPUs of some type can be committed, so that the budget counts a bill that is no sum over jobs."""
        return any(gpu_type.commitments is not None for gpu_type in self.gpu_types.values())

    def paid_gpus(self, gpu_type: str, widths: FloatArray) -> FloatArray:
        """Return the GPUs that jobs of some widths (N,) pay for: those of whole nodes where they share none."""
        node = self.gpu_types[gpu_type].gpus_per_node
        return np.ceil(widths / node) * node if self.whole_nodes and node is not None else widths

    @property
    def bound_by_law(self) -> str:
        """What the law of the GPUs in use at once decides, so that a changed plan may not keep it; nothing mostly."""
        return "most_gpus" if self.most_gpus is not None else "commitments" if self.commits else ""

    @cached_property
    def quotas(self) -> dict[str, float]:
        """By GPU type that has one, the limit on the time-average number of its GPUs."""
        return {name: t.quota_gpus for name, t in self.gpu_types.items() if t.quota_gpus is not None}

    @cached_property
    def due_s(self) -> dict[str, float]:
        """By class that has one, its due date: the limit on its mean completion time in seconds."""
        return {name: c.most_mean_jct_s for name, c in self.classes.items() if c.most_mean_jct_s is not None}

    @cached_property
    def floors(self) -> dict[str, float]:
        """By class that has one, its floor: the least time-average number of GPUs on which its jobs run."""
        return {name: c.least_mean_gpus for name, c in self.classes.items() if c.least_mean_gpus is not None}

    def running(self, name: str) -> FloatArray:
        """Return (E, K) the time-average GPUs that jobs of a class run on with each option; whole nodes count whole."""
        job_class, options = self.classes[name], self.options(name)
        gpu_hours = job_class.epoch_size_gpu_hours[:, None] * (options.paid * options.held / options.speeds)
        running: FloatArray = job_class.arrival_rate_per_hour * gpu_hours
        return running

    @cached_property
    def further_limits(self) -> dict[str, float]:
        """The limits beside the budget by name: quotas in GPUs, due dates in seconds, floors as in :attr:`limits`."""
        quotas = {f"{QUOTA}{name}": gpus for name, gpus in self.quotas.items()}
        due = {f"{DUE}{name}": due_s for name, due_s in self.due_s.items()}
        floors = {f"{FLOOR}{name}": (self._most_counted[name], floor) for name, floor in self.floors.items()}
        # Less so much that the tolerance of the limit is that of the floor.
        scaled = {limit: (m + _TOLERANCE * min(m, floor)) / (1.0 + _TOLERANCE) for limit, (m, floor) in floors.items()}
        return quotas | due | scaled

    @cached_property
    def _most_counted(self) -> dict[str, float]:
        running = {name: self.running(name) for name in self.floors}
        if self.policy is not Policy.MIXED:
            running = {name: np.minimum(each, self.floors[name]) for name, each in running.items()}
        return {name: math.fsum(each.max(axis=1).tolist()) for name, each in running.items()}

    @cached_property
    def limit_names(self) -> tuple[str, ...]:
        """(L,) Names of the limits: the budget, then the quotas, the due dates and the floors."""
        return (BUDGET, *self.further_limits)

    @property
    def objective_unit(self) -> str:
        """Seconds of mean completion time."""
        return "s"

    @property
    def limits(self) -> dict[str, float]:
        """The limits by name: the budget in :attr:`budget_unit`, quotas in GPUs, due dates in seconds, floors in GPUs.

        Every limit is one from above. A floor is stated as one on the GPUs that are missing to the most that count for
        it, and the floor itself: floor + most - running <= most. Of pure plans what an epoch runs beyond the floor
        does not count: it keeps the floor on its own, and sums stay of the floor's size. A UsageError without a budget.
        """
        return {BUDGET: self.budget_amount()} | self.further_limits

    @property
    def whole_limits(self) -> dict[str, float]:
        """The limits that bounds are about: :attr:`limits`, but of floors no less than what the floor itself leaves."""
        floors = {f"{FLOOR}{name}": most for name, most in self._most_counted.items()}
        return self.limits | floors

    def limit_unit(self, limit: str) -> str:
        """Return what a limit counts: ``gpu``, ``usd/hour`` or ``s``."""
        if limit == BUDGET:
            return self.budget_unit.value
        return "s" if limit.startswith(DUE) else BudgetUnit.GPU.value

    def limit_as_given(self, limit: str) -> tuple[float, str]:
        """Return a limit as the instance's own fields state it, and the unit there: 30000 and usd/month."""
        if limit.startswith(FLOOR):
            return self.floors[limit.removeprefix(FLOOR)], self.limit_unit(limit)
        if limit == BUDGET and self.budget is not None:
            return self.budget.value, self.budget.unit.value
        return self.budget_amount() if limit == BUDGET else self.further_limits[limit], self.limit_unit(limit)

    def count_limit(self, limit: str, given: float) -> float:
        """Return what an amount as given is in :attr:`limits`; of a floor also the way back, which is the same."""
        if not limit.startswith(FLOOR):
            return super().count_limit(limit, given)
        name = limit.removeprefix(FLOOR)
        return self.floors[name] + self._most_counted[name] - given

    def price_unit(self, limit: str) -> str:
        """Return the unit of a limit's shadow price."""
        unit = self.limit_unit(limit)
        return f"s of mean JCT per {'GPU' if unit == BudgetUnit.GPU.value else unit}"

    def budget_amount(self) -> float:
        """Return the budget in :attr:`budget_unit`; a UsageError where there is none."""
        if self.budget is None:
            raise UsageError(
                f"instance {self.name!r} has no budget; give one, as in --budget 120gpu or budget='120gpu'"
            )
        if self.budget.unit is BudgetUnit.GPU:
            return self.budget.value
        usd_per_hour = self.budget.value / PERIOD_HOURS[self.budget.unit]
        if self.budget_unit is BudgetUnit.USD_PER_HOUR:
            return usd_per_hour
        price = self.gpu_types[self.only_gpu_type].price_usd_per_hour
        if price is None:  # excluded by validation
            raise UsageError("a budget in money needs a price")
        return usd_per_hour / price

    @property
    def total_rate_per_hour(self) -> float:
        """Arrivals per hour of all classes together, lambda."""
        return math.fsum(c.arrival_rate_per_hour for c in self.classes.values())

    @cached_property
    def total_weighted_rate_per_hour(self) -> float:
        """Sum of weight times arrival rate: what weighted means are divided by."""
        return math.fsum(c.weight * c.arrival_rate_per_hour for c in self.classes.values())


def has_real_widths(instance: BoaInstance, name: str, gpu_type: str) -> bool:
    """Whether a class has a closed form on a type: Amdahl or power law, on GPUs that are not interrupted."""
    curve = instance.classes[name].speedup[gpu_type]
    return isinstance(curve, AmdahlSpeedup | PowerSpeedup) and instance.gpu_types[gpu_type].spot is None
