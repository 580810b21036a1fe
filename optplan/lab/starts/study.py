"""Rules of starting, side by side: what each costs, how long jobs wait, and the whole trade-off of the two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optplan.errors import InternalError, UsageError, nearest_name_hint
from optplan.lab.cluster.cells import Cell
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.replaying import replay
from optplan.lab.starts.daily_prices import DailyPrices
from optplan.lab.starts.rules import find_bargains, trade, wait_for_price
from optplan.lab.starts.uses import JobUse, Recorder, delay
from optplan.schema import FloatArray, IntArray

#: By how much what a replay costs may differ from what its jobs were said to cost, relatively.
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class RuleOutcome:
    """What came of one rule: waits and costs (J,) of jobs, as they held GPUs, and the cost of all nodes, whole."""

    rule: str
    waits_s: FloatArray
    costs_usd: FloatArray
    node_cost_usd: float


@dataclass(frozen=True, eq=False)
class StartStudy:
    """Rules side by side.

    ``may_wait_s`` is by application. The first rule starts all jobs at once, the last at the least cost; the trade-off
    (P,) is that of :func:`~optplan.lab.starts.rules.trade`; ``problems`` say why jobs could not be completed.
    """

    policy: str
    prices: DailyPrices
    uses: Sequence[JobUse]
    may_wait_s: Mapping[str, float]
    rules: Sequence[RuleOutcome]
    saved_per_hour: FloatArray
    wait_s: FloatArray
    cost_usd: FloatArray
    problems: Mapping[str, str]

    @property
    def lasts_s(self) -> FloatArray:
        """(J,) Seconds from start to end."""
        return np.array([use.lasts_s for use in self.uses])

    def summarise(self, started: RuleOutcome, application: str | None = None) -> dict[str, Any]:
        """Return the figures of a rule, of all jobs or those of an application."""
        own = np.array([application in (None, use.application) for use in self.uses])
        cost = math.fsum(started.costs_usd[own].tolist())
        return {
            "num_jobs": int(own.sum()),
            "cost_usd": cost,
            "mean_wait_s": float(started.waits_s[own].mean()),
            "mean_jct_s": float((started.waits_s + self.lasts_s)[own].mean()),
        }

    def to_json_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        applications = sorted({use.application for use in self.uses})
        return {
            "policy": self.policy,
            "usd_per_gpu_hour": self.prices.usd_per_gpu_hour.tolist(),
            "first_hour": self.prices.first_hour,
            "may_wait_s": dict(self.may_wait_s),
            "rules": [
                {
                    "rule": each.rule,
                    **self.summarise(each),
                    "node_cost_usd": each.node_cost_usd,
                    "applications": {name: self.summarise(each, name) for name in applications},
                }
                for each in self.rules
            ],
            "trade_off": self.list_trade_off(),
            "problems": dict(self.problems),
        }

    def list_trade_off(self) -> list[dict[str, float | None]]:
        """Return the whole trade-off as plain data, from no waiting to the least cost."""
        columns = zip(self.saved_per_hour.tolist(), self.wait_s.tolist(), self.cost_usd.tolist(), strict=True)
        return [
            {
                "saved_usd_per_hour_waited": saved if math.isfinite(saved) else None,
                "mean_wait_s": wait_s / len(self.uses),
                "mean_jct_s": float(self.lasts_s.mean()) + wait_s / len(self.uses),
                "cost_usd": cost,
            }
            for saved, wait_s, cost in columns
        ]


def study_starts(
    cell: Cell,
    prices: DailyPrices,
    may_wait_s: Mapping[str, float],
    *,
    worths_usd: Sequence[float] = (),
    thresholds_usd: Sequence[float] = (),
) -> StartStudy:
    """Replay jobs that start by several rules, on a cluster that rents what they need.

    The cell has fixed widths; its nodes come at once. Applications without an entry in ``may_wait_s`` start at once.
    Each of ``worths_usd``, of an hour that a job waits, makes a rule that weighs it against money; without
    ``thresholds_usd``, prices of a GPU at which jobs start, there is that of the 24 with the least cost, chosen in
    hindsight.
    """
    _check(may_wait_s, worths_usd, thresholds_usd)
    jobs, gpus_per_node = cell.make_jobs()
    known = sorted({job.application for job in jobs})
    for name in may_wait_s:
        if name not in known:
            hint = nearest_name_hint(name, known)
            raise UsageError(f"may_wait: no job of the workload runs {name!r} (it has {', '.join(known)}); {hint}")
    recorder = Recorder(make_policy(cell.policy))
    first = replay(jobs, recorder, gpus_per_node=gpus_per_node)
    uses = recorder.list_uses(first)
    if not uses:
        raise UsageError(f"policy: no job can be completed under {recorder.name}; choose other widths")
    bargains = [find_bargains(use, prices, may_wait_s.get(use.application, 0.0)) for use in uses]

    def start(rule: str, waits_s: FloatArray) -> RuleOutcome:
        starts_s = np.array([use.submitted_s for use in uses]) + waits_s
        costs = np.array([use.cost(prices, at_s[None])[0] for use, at_s in zip(uses, starts_s, strict=True)])
        later = replay(delay(jobs, uses, starts_s.tolist()), recorder.repeat(), gpus_per_node=gpus_per_node)
        _agree(math.fsum(costs.tolist()), _cost(later, later.gpus_used, prices))
        return RuleOutcome(rule, waits_s, costs, _cost(later, later.nodes_rented * gpus_per_node, prices))

    rules = [start("at once", np.zeros(len(uses)))]
    rules += [
        start(f"at ${usd:,.4g} or less", _wait_for(uses, prices, may_wait_s, usd))
        for usd in thresholds_usd or [_best_threshold(uses, prices, may_wait_s)]
    ]
    for usd in sorted(worths_usd, reverse=True):
        waits_s = np.array([each.wait_at(usd) for each in bargains])
        rules.append(start(f"an hour worth ${usd:,.4g}", waits_s))
    rules.append(start("least cost", np.array([each.wait_s[-1] for each in bargains])))
    saved, wait_s, cost_usd = trade(bargains)
    return StartStudy(recorder.name, prices, uses, may_wait_s, rules, saved, wait_s, cost_usd, first.problems)


def _check(may_wait_s: Mapping[str, float], worths_usd: Sequence[float], thresholds_usd: Sequence[float]) -> None:
    for what, numbers in (
        *((f"may_wait of {name}", [wait_s]) for name, wait_s in may_wait_s.items()),
        ("hour_worth", worths_usd),
        ("threshold", thresholds_usd),
    ):
        for number in numbers:
            if not (math.isfinite(number) and number >= 0.0):
                raise UsageError(f"{what}: got {number!r}; a finite number of at least zero is needed")


def _wait_for(uses: Sequence[JobUse], prices: DailyPrices, may_wait_s: Mapping[str, float], usd: float) -> FloatArray:
    return np.array([wait_for_price(use, prices, may_wait_s.get(use.application, 0.0), usd) for use in uses])


def _best_threshold(uses: Sequence[JobUse], prices: DailyPrices, may_wait_s: Mapping[str, float]) -> float:
    """Find the price at which starting costs the least; the highest of several."""

    def cost(usd: float) -> float:
        starts_s = _wait_for(uses, prices, may_wait_s, usd) + [use.submitted_s for use in uses]
        return math.fsum(float(use.cost(prices, at_s[None])[0]) for use, at_s in zip(uses, starts_s, strict=True))

    known: set[float] = set(prices.usd_per_gpu_hour.tolist())
    return min(sorted(known, reverse=True), key=cost)


def _cost(outcome: Outcome, gpus: IntArray, prices: DailyPrices) -> float:
    """Return what GPUs cost that change with an outcome's times."""
    return float(np.dot(gpus[:-1], np.diff(prices.paid_until(outcome.times_s))))


def _agree(told: float, replayed: float) -> None:
    if not math.isclose(told, replayed, rel_tol=_TOLERANCE, abs_tol=1e-9):
        raise InternalError(f"cost of the jobs in US dollars: {told!r} as they were said to run, {replayed!r} replayed")
