"""What becomes of a plan when the estimates behind it are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from optplan.contracts.instance import Solution
from optplan.progress import Listener
from optplan.schema import ByName, FrozenModel, Numbers


@dataclass(frozen=True)
class SensitivityRequest:
    """What an analysis of wrong estimates is asked besides the problem, its solution and the errors."""

    samples: int = 1000  #: Truths that are drawn.
    robust_samples: int = 0  #: Others, from which a plan is made that is best on average.
    compare: bool = True  #: Whether what a planner who knew each truth could do is found.
    seed: int = 0  #: The same samples, for any number of processes.
    gap: float = 1e-6
    processes: int = 1
    on_event: Listener | None = None


class SampledPlan(FrozenModel):
    """One plan, run under every sample of the truth; a formulation's own has its type of solution."""

    #: ``planned`` for the solution asked about, ``robust`` for the one that is best on average over other samples.
    name: str
    #: expected_objective, expected_consumption: What the estimates promise; the consumption by limit.
    expected_objective: float
    expected_consumption: ByName[float]
    objective: Numbers  #: (S,) In the samples.
    consumption: ByName[Numbers]  #: By limit, (S,) what the plan uses in the samples.
    cost_usd_per_hour: Numbers | None = None  #: (S,) What that costs; None where a price is missing.
    #: (S,) Proven: nobody who knew the truth could do better with what this plan uses; None where it was not asked.
    best_objective: Numbers | None = None
    solution: SerializeAsAny[Solution]  #: The decisions.
    #: Of the robust plan: no plan that keeps the limits on average has a lower mean objective over the samples that it
    #: was made from; else None.
    bound: float | None = None


class Sensitivity(FrozenModel):
    """How sensitive a plan is to errors of the estimates; a formulation's own has its type of plans."""

    version: Literal[1] = 1  #: Version of this record's schema.
    #: formulation, instance_name, instance_hash: Whose plan it is.
    formulation: str
    instance_name: str
    instance_hash: str
    objective_unit: str  #: Unit of all objectives.
    #: limits, limit_units: Amounts and units of the limits, by name.
    limits: ByName[float]
    limit_units: ByName[str]
    errors: ByName[float]  #: By name, the relative standard deviations that were sampled.
    #: By class, then by name, where those of a class were others.
    errors_by_class: ByName[ByName[float]] = Field(default_factory=dict)
    #: samples, robust_samples, seed: How many, and from which seed; the robust plan is made from other samples than it
    #: is judged by.
    samples: Annotated[int, Field(ge=1)]
    robust_samples: Annotated[int, Field(ge=0)]
    seed: Annotated[int, Field(ge=0)]
    plans: tuple[SampledPlan, ...]  #: The plan asked about, then the robust one if there is one.
    seconds: float = 0.0  #: Wall time.
