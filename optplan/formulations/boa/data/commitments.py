"""What GPUs of a type cost besides on demand: committed ones, paid at all hours, and those of a spot market."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from optplan.schema import NUMBER, FrozenModel, PositiveAmount

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
