"""GPU types that can be rented: prices, quotas, and what interruptions of spot GPUs cost.

A job on k spot GPUs, each interrupted ``nu`` times an hour, loses ``lost`` hours of work and ``restart`` hours of time
by each interruption. Interruptions are a Poisson process of rate ``nu * k`` for as long as the job holds its GPUs, also
while it restarts or does work anew; each of them adds its delay to what the job still has to do. That is the busy
period of a queue which starts with the work t0 and gets new work at each arrival, so its mean is the work over one
minus the load:

* restarts billed (GPUs are held through them): the job takes and holds ``t0 / (1 - nu k (restart + lost))``;
* restarts not billed (GPUs are handed back, and nothing can be interrupted meanwhile): it holds
  ``t0 / (1 - nu k lost)``, and takes ``1 + nu k restart`` times as long.

Where the denominator is not positive, interruptions come faster than the job can make up for them, and it never
finishes; what is positive by rounding alone is taken for zero. Pauses for rescaling are part of t0.

What GPUs of a type cost besides on demand: committed ones, paid at all hours, and those of a spot market.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from optplan.quantities import SecondsOrZero
from optplan.schema import (
    NUMBER,
    AmountOrZero,
    ByName,
    Fields,
    FloatArray,
    FrozenModel,
    IntArray,
    PositiveAmount,
    Takes,
    usual,
)
from optplan.units import SECONDS_PER_HOUR

#: What shares may miss 1 by, as they are written with few digits.
_ROUNDING = 1e-9
_Share = Annotated[float, Field(gt=0, le=1), NUMBER]


class Rate(FrozenModel):
    """A price below that on demand, as a discount on it or as itself."""

    discount: Annotated[float, Field(ge=0, lt=1), NUMBER] | None = None  # share of the price on demand that is saved
    price_usd_per_hour: PositiveAmount | None = None  # of one GPU

    @model_validator(mode="after")
    def _check(self) -> Rate:
        if (self.discount is None) == (self.price_usd_per_hour is None):
            raise ValueError("give either a discount, from 0 to below 1, or a price_usd_per_hour")
        return self

    def of_demand(self, on_demand: float | None) -> float:
        """Return the price as a share of that on demand, which has to be known where this is no discount."""
        if self.discount is not None:
            return 1.0 - self.discount
        return (self.price_usd_per_hour or 0.0) / (on_demand or math.nan)


class Term(Rate):
    """Committed GPUs: paid at all hours of a term, whether they are in use or not."""

    share: _Share | None = None  # of all committed GPUs; then every term has one, and they add up to 1
    most_gpus: Annotated[int, Field(ge=1), NUMBER] | None = None  # that may be committed for this term


class SpotMarket(Rate):
    """GPUs that are neither committed nor on demand."""

    share: _Share  # of the GPUs in use that may be on spot at any time


def check_terms(terms: dict[str, Term], spot: SpotMarket | None, on_demand: float | None) -> None:
    """Raise a ValueError unless terms, and a spot market beside them, go together with a price on demand."""
    if not terms:
        raise ValueError("commitments: is empty; give at least one term, as in {1-year: {discount: 0.3}}")
    rates: dict[str, Rate] = {f"commitments.{name}": term for name, term in terms.items()}
    for name, rate in (rates if spot is None else rates | {"spot_market": spot}).items():
        if rate.price_usd_per_hour is None:
            continue
        if on_demand is None:
            raise ValueError(f"{name}: has a price, and the type has no price_usd_per_hour; give one, or a discount")
        if rate.price_usd_per_hour > on_demand:
            paid = f"costs {rate.price_usd_per_hour:g} US dollars an hour, more than {on_demand:g} on demand"
            raise ValueError(f"{name}: {paid}; leave it out, or correct the price")
    shares = {name: term.share for name, term in terms.items() if term.share is not None}
    if not shares:
        return
    if missing := [name for name in terms if name not in shares]:
        raise ValueError(f"commitments.{missing[0]}: has no share, and other terms do; give all terms one, or none")
    if limited := [name for name, term in terms.items() if term.most_gpus is not None]:
        raise ValueError(f"commitments.{limited[0]}: has a share and most_gpus; give one of them")
    if abs(total := math.fsum(shares.values()) - 1.0) > _ROUNDING:
        raise ValueError(f"commitments: shares add up to {total + 1.0:g}; those of all terms have to add up to 1")


#: A load that is 1 but for this is 1: the sums and products that it is made of are rounded.
_SAME_LOAD = 1e-9
#: Most GPUs of a node.
_LARGEST_NODE = 1024


def _refuse_free(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and value == 0:
        raise ValueError(
            "got 0; a price above zero is needed. Without prices a budget counts GPUs; for GPUs that are yours, "
            "limit them by quota_gpus and give what an hour of them costs you"
        )
    return value


class Spot(FrozenModel):
    """What interruptions do to a job on spot GPUs."""

    interruptions_per_gpu_hour: PositiveAmount  # mean number while a GPU is held; a job on k GPUs meets k times as many
    restart_s: AmountOrZero  # mean, from an interruption until the job runs again
    lost_work_s: AmountOrZero = 0.0  # mean work undone: about half the time between two checkpoints
    restart_billed: bool = True  # whether GPUs are held, paid and exposed during the restart

    def stretch(self, widths: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors (K,) of a job's time and of holding its GPUs; infinite where it never finishes."""
        per_hour = self.interruptions_per_gpu_hour * widths
        restart_h, lost_h = self.restart_s / SECONDS_PER_HOUR, self.lost_work_s / SECONDS_PER_HOUR
        load = per_hour * (lost_h + (restart_h if self.restart_billed else 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            held = np.where(load < 1.0 - _SAME_LOAD, 1.0 / (1.0 - load), np.inf)
        return held if self.restart_billed else held * (1.0 + per_hour * restart_h), held


class GpuType(FrozenModel):
    """A kind of GPU that can be rented."""

    LATER: ClassVar[frozenset[str]] = frozenset({"gpus_per_node", "start_s", "commitments", "spot_market"})

    #: Of one GPU, in US dollars; needed for budgets in money.
    price_usd_per_hour: Annotated[PositiveAmount, BeforeValidator(_refuse_free)] | None = None
    #: price_source, price_date: Who published the price and when.
    price_source: str = ""
    price_date: str = ""
    #: Limit on the time-average number of GPUs of this type, 0 for none of them; None for no limit.
    quota_gpus: AmountOrZero | None = None
    spot: Takes[Spot | None, Fields] = usual(None)  #: For GPUs that can be taken away.
    #: GPUs of one node; None where nobody says it.
    gpus_per_node: Annotated[int, Field(ge=1, le=_LARGEST_NODE), NUMBER] | None = None
    #: Mean seconds from the request for a node until its GPUs can train, paid and without progress; None where nobody
    #: says it. Budget and objective leave it out, as GPUs are taken to be there when they are asked for; how much it
    #: adds at most is a measure of every solution, virtual clocks wait for it, and plans name it as the launch.
    start_s: Takes[SecondsOrZero | None, str] = usual(None)
    #: By term, what committed GPUs cost; the number that is best for the plan is committed. A budget then counts the
    #: bill: committed GPUs at all hours, and what more is in use on demand or spot. None where all are on demand.
    commitments: Takes[ByName[Term] | None, Mapping[str, Term | Fields]] = usual(None)
    #: What GPUs in use beyond the committed ones may cost for a share of them.
    spot_market: Takes[SpotMarket | None, Fields] = usual(None)

    @model_validator(mode="after")
    def _check_prices(self) -> GpuType:
        if self.commitments is not None:
            check_terms(self.commitments, self.spot_market, self.price_usd_per_hour)
        elif self.spot_market is not None:
            raise ValueError("spot_market: is the price of what is not committed; give commitments beside it")
        return self

    @property
    def least_price(self) -> float:
        """The least that a GPU-hour can cost, as a share of the price on demand: no GPU is idle, and all spot is used.

        A sum over GPU-hours in use that no bill is below: committed GPUs cost no less than those of them in use.
        """
        if self.commitments is None:
            return 1.0
        least = min(term.of_demand(self.price_usd_per_hour) for term in self.commitments.values())
        if self.spot_market is None:
            return least
        spot = min(self.spot_market.of_demand(self.price_usd_per_hour), least)
        return self.spot_market.share * spot + (1.0 - self.spot_market.share) * least

    def stretch(self, widths: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors of :meth:`Spot.stretch`; ones for GPUs that stay."""
        if self.spot is None:
            return np.ones(widths.size), np.ones(widths.size)
        return self.spot.stretch(widths)

    def finishes(self, widths: IntArray) -> NDArray[np.bool_]:
        """Whether a job on so many of these GPUs (K,) ever finishes."""
        return np.isfinite(self.stretch(widths)[0])
