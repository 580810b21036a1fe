"""What GPUs in use cost where some are committed, and how many to commit.

With C committed GPUs at a price r, u in use, and beyond C a share of u on spot at a price s, all as shares of the price
on demand, an hour costs ``r C + s (u - C)+ + (1 - s) ((1 - share) u - C)+``. In the mean over u that is convex in C:
the best number is the least at which one more is used too rarely to pay, a quantile of the GPUs in use (the
newsvendor's; without spot the least C with P(u > C) <= r). Terms at other prices stack: each up to its own quantile, or
the most that it may have. Without spot the least bill is r times the mean of u in the share r of the time in which it
is largest (the expected shortfall of Rockafellar and Uryasev, 2000).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optplan.formulations.boa.data.gpu_types import GpuType, SpotMarket, Term
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.laws.demand import Demand
from optplan.schema import FloatArray

#: One more committed GPU has to save this at least, relative to the bill: rounding must not decide.
_SLACK = 1e-9


@dataclass(frozen=True)
class Bill:
    """What GPUs of a type cost on average, and how many are committed by term."""

    gpus: dict[str, float]
    committed: float
    spot: float
    on_demand: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.committed + self.spot + self.on_demand

    @property
    def number(self) -> float:
        """How many are committed for all terms."""
        return sum(self.gpus.values())


@dataclass(frozen=True)
class Tariff:
    """Prices as shares of that on demand: tranches of ``most`` GPUs, cheapest first, divided among ``terms``; spot."""

    price: FloatArray
    most: FloatArray
    terms: tuple[str, ...]
    shares: FloatArray
    spot_price: float
    spot_share: float

    @staticmethod
    def of(gpu_type: GpuType) -> Tariff:
        """Return that of a type that has commitments."""
        return Tariff.of_terms(gpu_type.commitments or {}, gpu_type.spot_market, gpu_type.price_usd_per_hour)

    @staticmethod
    def of_terms(terms: Mapping[str, Term], spot: SpotMarket | None = None, on_demand: float | None = None) -> Tariff:
        """Return that of terms, and a spot market beside them; a price on demand is needed where one is a price."""
        price = np.array([term.of_demand(on_demand) for term in terms.values()])
        most = np.array([np.inf if term.most_gpus is None else float(term.most_gpus) for term in terms.values()])
        order, shares = np.argsort(price, kind="stable"), np.eye(price.size)
        if all(term.share is not None for term in terms.values()):
            given = np.array([term.share or 0.0 for term in terms.values()])
            price, most, shares, order = np.array([given @ price]), np.array([np.inf]), given[:, None], np.zeros(1, int)
        at = (1.0, 0.0) if spot is None else (spot.of_demand(on_demand), spot.share)
        return Tariff(price[order], most[order], tuple(terms), shares[:, order], *at)

    def stack(self, gpus: FloatArray) -> FloatArray:
        """Divide numbers of committed GPUs (N,) among the tranches (tranches, N)."""
        before = np.concatenate([np.zeros(1), np.cumsum(self.most)[:-1]])
        stacked: FloatArray = np.clip(gpus - before[:, None], 0.0, self.most[:, None])
        return stacked


def bill_demand(
    instance: BoaInstance, laws: Mapping[str, Demand], committed: Mapping[str, float] | None = None
) -> dict[str, Bill]:
    """Return by GPU type the bill in the unit of the budget, with numbers of committed ones or the best."""
    bills = {}
    for name, price in instance.prices_on_demand.items():
        kind, bill = instance.gpu_types[name], Bill({}, 0.0, 0.0, laws[name].mean)
        if kind.commitments is not None:
            bill = make_bill(Tariff.of(kind), laws[name], None if committed is None else committed[name])
        bills[name] = Bill(bill.gpus, price * bill.committed, price * bill.spot, price * bill.on_demand)
    return bills


def make_bill(tariff: Tariff, demand: Demand, committed: float | None = None) -> Bill:
    """Return the bill, in GPUs on demand, for a distribution of GPUs in use; see :func:`bill_demand`."""
    chances = demand.any_time
    in_use: FloatArray = np.arange(chances.size, dtype=np.float64) * demand.unit
    if committed is None:
        numbers = in_use[in_use <= tariff.most.sum()]
        if numbers.size < in_use.size:
            numbers = np.append(numbers, tariff.most.sum())
        excess = sum_beyond(chances, in_use, numbers)
        beyond = sum_beyond(chances, in_use * (1.0 - tariff.spot_share), numbers)
        costs = tariff.price @ tariff.stack(numbers) + tariff.spot_price * excess + (1.0 - tariff.spot_price) * beyond
        committed = float(numbers[np.argmax(costs <= costs.min() * (1.0 + _SLACK))])
    stacked = tariff.stack(np.array([committed]))[:, 0]
    on_demand = float(chances @ np.maximum((1.0 - tariff.spot_share) * in_use - committed, 0.0))
    spot = tariff.spot_price * (float(chances @ np.maximum(in_use - committed, 0.0)) - on_demand)
    divided = (tariff.shares @ stacked).tolist()
    return Bill(dict(zip(tariff.terms, divided, strict=True)), float(tariff.price @ stacked), spot, on_demand)


def sum_beyond(chances: FloatArray, values: FloatArray, numbers: FloatArray) -> FloatArray:
    """Return the mean of what values (N,), increasing, are above each of some numbers, by chances (..., N)."""
    behind = [(0, 0)] * (chances.ndim - 1) + [(0, 1)]
    share, mean = (np.pad(np.cumsum(each[..., ::-1], -1)[..., ::-1], behind) for each in (chances, chances * values))
    first = np.searchsorted(values, numbers, side="right")
    beyond: FloatArray = mean[..., first] - numbers * share[..., first]
    return beyond
