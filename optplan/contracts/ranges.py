"""What an answer is worth where the speedups behind it are known within bands only: its range, and what to measure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from optplan.schema import ByName, FrozenModel


class Truth(FrozenModel):
    """Speedups within their bands, and what becomes of the answer if they are the true ones."""

    #: By class, then by GPU type: from -1, the lower end of the band, over 0, as stated, to 1, its upper end.
    shifts: ByName[ByName[Annotated[float, Field(ge=-1, le=1)]]]
    #: best_objective, best_bound: The best plan that was found for this truth within the limits, and the bound of all.
    #: Both None where no plan keeps the limits; the objective alone is None where none was found.
    best_objective: float | None = None
    best_bound: float | None = None
    #: Decisions that come to ``best_objective``, as a solution is written; empty where the result's own do.
    plan: ByName[JsonValue] = Field(default_factory=dict)
    #: By limit: where the dual bound is ``best_bound``, or is less and no plan of whole widths within the limits lies
    #: between. Empty where no plan keeps them.
    multipliers: ByName[Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    #: objective, consumption: What the result's own plan amounts to; the consumption by limit, in the limit's unit.
    objective: float
    consumption: ByName[float]


class Measurement(FrozenModel):
    """One speedup that could be measured, and what knowing it can be worth."""

    subject: str  #: Whose, such as a job class.
    gpu_type: str
    gpus: Annotated[int, Field(ge=1)]  #: The width at which it is least known, of those that the best plans hold.
    #: Proven: by at most so much is the plan's objective above the least within the limits, whatever the truth of this
    #: one speedup within its band, all others as stated; in the unit of the objective.
    worth: Annotated[float, Field(gt=0)]


class AnswerRange(FrozenModel):
    """How an answer changes within the stated errors of speedups."""

    version: Literal[1] = 1  #: Version of this record's schema.
    gap: Annotated[float, Field(ge=0, lt=1)]  #: At which the search for the best plan of a truth stopped.
    #: All at the upper end of their bands, all at the lower end, then others between. No truth within the bands has a
    #: less ``best_bound`` than the first, nor a greater least objective than the second; the own plan's figures are
    #: between those of these two, too.
    truths: Annotated[tuple[Truth, ...], Field(min_length=2)]
    #: By class to which best plans of the truths give widths beyond those of the own plan, then by GPU type: least and
    #: largest width that any of them, or the own one, holds. Those of other truths may lie farther out.
    widths: ByName[ByName[tuple[float, float]]]
    measurements: tuple[Measurement, ...] = ()  #: Those that can be worth anything, what is worth most first.

    @property
    def best(self) -> tuple[float | None, float | None]:
        """Between which objectives the best plan lies: a bound, and a plan's; None where there is none, or none yet."""
        return self.truths[0].best_bound, self.truths[1].best_objective

    @property
    def may_have_no_plan(self) -> bool:
        """Whether no plan keeps the limits where all speedups are at the lower ends of their bands: proven."""
        return self.truths[1].best_bound is None

    @property
    def own(self) -> tuple[float, float]:
        """Between which objectives the result's own plan lies."""
        return self.truths[0].objective, self.truths[1].objective
