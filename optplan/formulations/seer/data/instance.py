"""SEER's data: a deadline, a budget, and what the search may do with them.

Glossary: a *trial* is one configuration being trained; a *round* is the time between two eliminations, the same for all
trials; a *bracket* is a group of trials that hold as many GPUs each. Symbols of the paper in brackets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from optplan.contracts.instance import Instance, Sense, Solution
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.formulations.seer.data.brackets import SearchBrackets, SearchParameters, size_brackets
from optplan.formulations.seer.data.prior import SearchPrior
from optplan.formulations.seer.data.search_space import Hyperparameter
from optplan.quantities import PositiveMinutes, SecondsOrZero, read_amount, require_range
from optplan.schema import NUMBER, ByName, Fields, FrozenModel, PositiveAmount, Takes, usual
from optplan.units import MINUTES_PER_HOUR, SECONDS_PER_MINUTE, Amount, BudgetUnit

#: The limits' names in relaxations and in the judge's consumption.
BUDGET = "budget"
DEADLINE = "deadline"

#: Most shortest rounds on p_min GPUs that a budget may pay: beyond that a unit is wrong, and floors lose their meaning.
MOST_ROUNDS_PAID = 1e9

#: Most trials of the first round, and most rounds, of a search whose expected loss is sampled; a published search may
#: have more rounds.
MOST_SAMPLED_TRIALS = 5_000
MOST_SAMPLED_ROUNDS = 8

#: What a resize takes unless an instance says so: from the end of a round to the first iteration of the next one, of a
#: class with PyTorch under torchrun on two cores (docs/executors-local.md, Measured pauses: 22, 21 and 25 s on 1, 2 and
#: 4 workers; the median).
MEASURED_RESIZE_S = 22.0


#: What a budget of SEER may count: it is a total for one search, no rate.
_TOTALS = (BudgetUnit.GPU_MINUTE, BudgetUnit.GPU_HOUR, BudgetUnit.USD)
_TOTAL = "480gpu-min, 8gpu-h or 20usd"


def _require_decay(value: float) -> float:
    if not value > 1:
        raise ValueError(f"got {value!r}; a number above 1 is needed: one trial in eta goes on to the next round")
    return value


def _require_growth(value: float) -> float:
    if not value >= 1:
        message = f"got {value!r}; a number from 1 on is needed: each bracket gives a trial nu times as many GPUs"
        raise ValueError(message)
    return value


#: How many times fewer trials the next round has.
Decay = Annotated[float, NUMBER, AfterValidator(require_range), AfterValidator(_require_decay)]

#: How many times more GPUs the next bracket gives a trial.
Growth = Annotated[float, NUMBER, AfterValidator(require_range), AfterValidator(_require_growth)]

#: The total that a search may take: GPU-time, or money.
Budget = Annotated[
    Amount,
    BeforeValidator(
        read_amount(
            f"a number with its unit, as in {_TOTAL}",
            units=_TOTALS,
            otherwise=f", a rate; the total of one search is needed, as in {_TOTAL}",
        )
    ),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["480gpu-min", "8gpu-h", "20usd"]}),
]


class Objective(StrEnum):
    """What a search is for."""

    #: Most GPU-minutes of training, in the published rounds and brackets.
    SPEND = "spend"
    #: Least expected final loss under the prior, in any rounds and brackets.
    QUALITY = "quality"


class BudgetCounts(StrEnum):
    """What a budget pays for."""

    #: The GPUs that trials hold.
    HELD = "held"
    #: All GPUs of the whole nodes that they are on.
    NODES = "nodes"


#: Objectives by the names of their problems.
_OBJECTIVES = {"spend": Objective.SPEND, "informed": Objective.QUALITY}


class SeerInstance(Instance["SeerSolution"]):
    """One search for hyperparameters: the best that a deadline and a budget can buy.

    Durations are numbers in the unit of their names, or texts such as ``30min``.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"most_gpus_held", "budget_counts"})

    formulation: Literal["seer"] = "seer"
    version: Literal[1] = 1
    deadline_min: Takes[PositiveMinutes, str]  #: Minutes until the search must have ended (T).
    #: What it may take in all (B): GPU-time such as ``480gpu-min`` or ``8gpu-h``, or money such as ``20usd``.
    budget: Takes[Budget, str]
    eta: Decay = 4.0  #: How many times fewer trials the next round has, and how many times longer it is; above 1.
    nu: Growth = 2.0  #: How many times more GPUs the next bracket gives a trial; at least 1.
    #: least_gpus, most_gpus: GPUs of a trial (p_min, p_max); without ``most_gpus`` there is no upper limit.
    least_gpus: PositiveAmount = 1.0
    most_gpus: PositiveAmount | None = None
    #: Minutes of training before a trial may be eliminated (t_min).
    least_round_min: Takes[PositiveMinutes, str] = usual(1.0)
    #: Seconds without training at the start of every round but the first, while GPUs are given back and trials are
    #: placed anew. Part of time and of what is spent. By default the 22 s that were measured of a class with PyTorch
    #: under torchrun (docs/executors-local.md, Measured pauses); 0 leaves it out, as the paper does.
    resize_s: Takes[SecondsOrZero, str] = usual(MEASURED_RESIZE_S)
    #: Whether a trial holds whole GPUs; otherwise real numbers, as the paper's algorithm prints them.
    whole_gpus: bool = True
    gpu_type: Annotated[str, Field(min_length=1)] = "gpu"  #: What kind of GPU, for plans.
    #: price_usd_per_gpu_hour, price_source, price_date: What an hour of one GPU costs in US dollars, who said so, when.
    #: Needed for a budget in money.
    price_usd_per_gpu_hour: PositiveAmount | None = None
    price_source: str = ""
    price_date: str = ""
    #: GPUs of the nodes that are rented whole; where it is given, the budget counts them whole unless ``budget_counts``
    #: says otherwise, and what they take is measured.
    gpus_per_node: Annotated[int, Field(ge=1, strict=True)] | None = None
    #: Hyperparameters by name; empty where it is not stated.
    search_space: Takes[ByName[Hyperparameter], Mapping[str, Hyperparameter | Fields]] = usual(
        Field(default_factory=dict)
    )
    #: ``spend``: most GPU-minutes of training in the published rounds and brackets; ``quality``: least expected final
    #: loss, whatever the rounds and brackets.
    objective: Takes[Objective, str] = usual(Objective.SPEND)
    #: What is believed of learning curves and of scaling. Needed for ``quality``; ``spend`` does not look at it.
    prior: Takes[SearchPrior | None, Fields] = usual(None)
    #: GPUs of all trials together at any time (G); without it there is no limit.
    most_gpus_held: PositiveAmount | None = None
    #: ``nodes``: the budget counts all GPUs of the whole nodes that are rented, the default where ``gpus_per_node`` is
    #: above 1 and the objective is ``spend``; ``held``: the GPUs that trials hold, as published.
    budget_counts: Takes[BudgetCounts | None, str] = usual(None)

    @model_validator(mode="after")
    def _check(self) -> SeerInstance:
        if self.most_gpus is not None and self.least_gpus > self.most_gpus:
            problem = f"got {self.least_gpus:g}, more than most_gpus ({self.most_gpus:g})"
            raise DataError("least_gpus", problem, "lower it, or raise most_gpus")
        if self.most_gpus_held is not None and self.least_gpus > self.most_gpus_held:
            problem = f"got {self.most_gpus_held:g}, fewer than one trial holds (least_gpus: {self.least_gpus:g})"
            raise DataError("most_gpus_held", problem, "raise it, or lower least_gpus")
        if self.whole_gpus:
            for field in ("least_gpus", "most_gpus", "most_gpus_held"):
                gpus = getattr(self, field)
                if gpus is not None and gpus != round(gpus):
                    problem = f"got {gpus!r}; whole GPUs are needed"
                    raise DataError(field, problem, "round it, or set whole_gpus to false")
        elif self.gpus_per_node is not None:
            problem = f"got {self.gpus_per_node}, although whole_gpus is false"
            raise DataError("gpus_per_node", problem, "fractions of GPUs have no place on a node; remove one")
        if self.budget_counts is BudgetCounts.NODES:
            if self.gpus_per_node is None:
                raise DataError("gpus_per_node", "is missing, and the budget counts whole nodes", "add it")
            if self.objective is Objective.QUALITY:
                fix = "set it to held, or objective to spend"
                raise DataError("budget_counts", "got nodes; the objective quality counts GPUs held", fix)
        if self.budget.unit is BudgetUnit.USD and self.price_usd_per_gpu_hour is None:
            fix = "add it, or give the budget in GPU-time, as in 480gpu-min"
            raise DataError("price_usd_per_gpu_hour", "is missing, and the budget is in money", fix)
        paid = self.budget_gpu_min / (self.least_gpus * self.least_round_min)
        if paid > MOST_ROUNDS_PAID:
            problem = f"got {str(self.budget)!r}, which pays {paid:.3g} rounds of least_round_min on least_gpus"
            raise DataError("budget", f"{problem}; up to {MOST_ROUNDS_PAID:g} are allowed", "check the units")
        _ = self.brackets  # refuses an eta or a nu with which there is no end of rounds or brackets
        self._check_prior()
        return self

    def _check_prior(self) -> None:
        if self.prior is None:
            if self.objective is Objective.QUALITY:
                raise DataError("prior", "is missing; the objective is quality", "add it, or set objective to spend")
            return
        if self.least_gpus < 1:
            problem = f"got {self.least_gpus:g}; the prior tells of one GPU and more"
            raise DataError("least_gpus", problem, "raise it, or remove prior")
        brackets = () if self.brackets is None else self.brackets.brackets
        trials = sum(bracket.trials[0] for bracket in brackets)
        if self.objective is Objective.QUALITY and trials > MOST_SAMPLED_TRIALS:
            problem = f"got {str(self.budget)!r}, which makes {trials:,} trials as published"
            fix = "raise least_round_min, or set objective to spend"
            raise DataError("budget", f"{problem}; up to {MOST_SAMPLED_TRIALS:,} can be sampled", fix)

    def fields_of_problem(self, problem: str) -> dict[str, object]:
        """Return the fields to change so that another problem is asked; refuse one that the data are not enough for."""
        objective = _OBJECTIVES.get(problem)
        if objective is None:
            raise UsageError(f"problem: got {problem!r}; {nearest_name_hint(problem, list(_OBJECTIVES))}")
        if objective is Objective.QUALITY and self.prior is None:
            message = f"problem: {problem} needs the field prior, which instance {self.name!r} does not have; add it"
            raise UsageError(message)
        if objective is Objective.QUALITY and self.budget_counts is BudgetCounts.NODES:
            raise UsageError(f"problem: {problem} counts GPUs held, and budget_counts is nodes; set it to held")
        return {"objective": objective}

    @property
    def objective_unit(self) -> str:
        """Unit of the objective."""
        return "GPU-min" if self.objective is Objective.SPEND else "loss"

    @property
    def sense(self) -> Sense:
        """More GPU-minutes of training are better, and less loss."""
        return Sense.MAXIMISE if self.objective is Objective.SPEND else Sense.MINIMISE

    @property
    def limits(self) -> dict[str, float]:
        """Budget in GPU-minutes and deadline in minutes."""
        return {BUDGET: self.budget_gpu_min, DEADLINE: self.deadline_min}

    def limit_as_given(self, limit: str) -> tuple[float, str]:
        """Return a limit as the instance's own fields state it, and the unit there: 20 and usd."""
        return (self.budget.value, self.budget.unit.value) if limit == BUDGET else (self.deadline_min, "min")

    def price_unit(self, limit: str) -> str:
        """Return the unit of a limit's shadow price."""
        return f"{self.objective_unit} per {'GPU-min' if limit == BUDGET else 'min'}"

    @property
    def budget_gpu_min(self) -> float:
        """The budget in GPU-minutes."""
        amount = self.budget.value
        if self.budget.unit is BudgetUnit.GPU_MINUTE:
            return amount
        gpu_hours = amount if self.budget.unit is BudgetUnit.GPU_HOUR else amount / (self.price_usd_per_gpu_hour or 1.0)
        return gpu_hours * MINUTES_PER_HOUR

    @property
    def nodes_paid(self) -> int | None:
        """GPUs of a node where the budget counts whole nodes; None where it counts the GPUs that trials hold."""
        return self.gpus_per_node if self.counted is BudgetCounts.NODES else None

    @property
    def counted(self) -> BudgetCounts:
        """What the budget counts, as said or by default."""
        if self.budget_counts is not None:
            return self.budget_counts
        rents_nodes = self.objective is Objective.SPEND and (self.gpus_per_node or 1) > 1
        return BudgetCounts.NODES if rents_nodes else BudgetCounts.HELD

    def hashed_later(self, field: str) -> object:
        """Hash what the budget counts, said or not; GPUs held leave the hash as it was before there was a choice."""
        if field != "budget_counts":
            return super().hashed_later(field)
        return None if self.nodes_paid is None else self.counted

    @property
    def resize_min(self) -> float:
        """Minutes without training at the start of every round but the first."""
        return self.resize_s / SECONDS_PER_MINUTE

    @property
    def parameters(self) -> SearchParameters:
        """What the paper's algorithms ask for."""
        own = {each.name: getattr(self, each.name) for each in fields(SearchParameters)}
        return SearchParameters(**own | {"gpus_per_node": self.nodes_paid})

    @cached_property
    def brackets(self) -> SearchBrackets | None:
        """Rounds and brackets as published; None when not even one trial of the shortest round fits."""
        return size_brackets(self.parameters)

    @property
    def published(self) -> SeerSolution | None:
        """The published brackets as a solution; those without trials are left out. None where :attr:`brackets` is."""
        found = self.brackets
        if found is None:
            return None
        brackets = tuple(Bracket(gpus=each.gpus, trials=each.trials) for each in found.brackets if each.trials[0])
        return SeerSolution(round_min=found.round_min, rounds=found.rounds, brackets=brackets)


class Bracket(FrozenModel):
    """Trials that hold as many GPUs each."""

    gpus: PositiveAmount  #: Of each trial (P).
    #: (K,) How many train in each round; the first of them is N.
    trials: tuple[Annotated[int, Field(ge=0, strict=True)], ...]


class SeerSolution(Solution):
    """What SEER decides: how long the rounds are, and how many trials train on how many GPUs in each."""

    round_min: PositiveMinutes  #: Minutes of training in the first round (t_1); the next one takes eta times as long.
    rounds: Annotated[int, Field(ge=1, strict=True)]  #: How many (K).
    brackets: tuple[Bracket, ...]  #: By increasing GPUs; those without trials are left out.
