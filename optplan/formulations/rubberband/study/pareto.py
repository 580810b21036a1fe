"""The trade-off between time and cost of a search: every plan that no other beats in both.

A bracket's plans come from label setting over the whole graph. Where that would take too much work, plans at chosen
limits stand in, each proven best at its own; the frontier says that it is not complete.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.contracts.frontier import ParetoFrontier, ParetoPoint
from optplan.contracts.result import SolveRequest
from optplan.errors import UnsupportedError
from optplan.formulations.rubberband.data.instance import Objective, RubberBandInstance
from optplan.formulations.rubberband.exact.chains import Chain, state_chains, write_solution
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.held import HeldShortfall, find_least, solve_held
from optplan.solvers.paths.held_labels import find_pareto_set
from optplan.solvers.paths.search import Effort, OutOfEffortError

#: Labels that the whole trade-off of a bracket may take.
_MOST_LABELS = 400_000
#: Limits at which plans are sought where that is not enough, and the most points of a complete frontier.
_SAMPLED = 48
_MOST_POINTS = 2000
#: Improvements below this, relatively, are rounding.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class _Trade:
    """Plans of one bracket by increasing time: seconds (P,), US dollars (P,), options (P, J)."""

    seconds: FloatArray
    usd: FloatArray
    options: IntArray
    complete: bool


def build_pareto(instance: RubberBandInstance, request: SolveRequest) -> ParetoFrontier:
    """Find the trade-off of expected time and cost, the objective's limit varied; sampled where it takes too long."""
    if instance.confidence is not None:
        raise UnsupportedError("the frontier is of expected times: leave the confidence out")
    chains = state_chains(instance)
    trades = [_trade(chain, request) for chain in chains]
    seconds, usd, paths = _merge(trades)
    kept = _thin(seconds, usd)
    complete = all(trade.complete for trade in trades) and kept.size <= _MOST_POINTS
    if kept.size > _MOST_POINTS:
        kept = kept[np.unique(np.linspace(0, kept.size - 1, _MOST_POINTS).astype(np.int64))]
    points = []
    for position in kept.tolist():
        pair = float(seconds[position]), float(usd[position])
        limit, objective = pair if instance.objective is Objective.COST else pair[::-1]
        points.append(
            ParetoPoint(
                limit=limit,
                objective=objective,
                # Plans at sampled limits are proven best there, as all plans of a complete frontier are.
                bound=objective,
                measures={"expected_s": pair[0], "expected_usd": pair[1]},
                solution=write_solution(
                    chains, [trade.options[row] for trade, row in zip(trades, paths[position], strict=True)]
                ),
            )
        )
    return ParetoFrontier.of(
        instance, instance.traded_limit(""), points, exact=complete, seconds=request.stopwatch.elapsed_s
    )


def _trade(chain: Chain, request: SolveRequest) -> _Trade:
    """Find the whole trade-off of one bracket, or plans at some limits."""
    try:
        effort = Effort(request.stopwatch, max_labels=_MOST_LABELS)
        found = find_pareto_set(chain.graph, effort, chain.charges)
    except OutOfEffortError:
        return _sample(chain, request)
    return _Trade(found.used, found.value, found.payload, complete=True)


def _sample(chain: Chain, request: SolveRequest) -> _Trade:
    """Find the cheapest plans within times between the fastest plan's and the cheapest one's."""
    effort = Effort()
    fastest = find_least(chain.graph, effort=effort, charges=chain.charges).least
    slowest = solve_held(chain.graph, math.inf, effort=effort, charges=chain.charges)
    times = [fastest, math.inf]
    if not isinstance(slowest, HeldShortfall):
        times = [*np.geomspace(fastest, slowest.consumption, _SAMPLED).tolist()[:-1], math.inf]
    rows = []
    for number, within_s in enumerate(times):
        # The ends always, the others while there is time.
        if request.stopwatch.expired and 0 < number < len(times) - 1:
            continue
        ends = number in (0, len(times) - 1)
        found = solve_held(
            chain.graph, within_s, effort=Effort() if ends else Effort(request.stopwatch), charges=chain.charges
        )
        if not isinstance(found, HeldShortfall) and found.options is not None and found.proven:
            rows.append((found.consumption, found.value, found.options))
        request.stopwatch.emit("frontier", fraction=(number + 1) / len(times))
    rows.sort(key=lambda row: row[:2])
    seconds, usd, options = (np.array(column) for column in zip(*rows, strict=True))
    return _Trade(seconds, usd, options, complete=False)


def _merge(trades: list[_Trade]) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return, by time at which some bracket can end, the cheapest of all: seconds, US dollars, places (P, B)."""
    earliest = max(float(trade.seconds[0]) for trade in trades)
    times = np.unique(np.concatenate([trade.seconds for trade in trades]))
    times = times[times >= earliest]
    rows = [np.searchsorted(trade.seconds, times, side="right") - 1 for trade in trades]
    # A time may be that of a plan which another bracket's plan beats: the slowest of those taken counts.
    usd = np.sum([trade.usd[row] for trade, row in zip(trades, rows, strict=True)], axis=0)
    seconds = np.max([trade.seconds[row] for trade, row in zip(trades, rows, strict=True)], axis=0)
    return seconds, np.asarray(usd), np.column_stack(rows)


def _thin(seconds: FloatArray, usd: FloatArray) -> IntArray:
    """Return the plans that cost less than all faster ones, by more than rounding."""
    kept = [0]
    for position in range(1, seconds.size):
        if usd[position] < usd[kept[-1]] * (1.0 - _SAME) and seconds[position] > seconds[kept[-1]]:
            kept.append(position)
    return np.array(kept)
