"""The suite of Srift: the paper's cases and conclusions, large generated problems, and how the search grows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from optplan.contracts.time_and_money import Objective
from optplan.errors import UnsupportedError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.formulations.srift.exact.goals import FleetJudge
from optplan.instances.files import read_instance
from optplan.instances.generators import random_srift
from optplan.lab.benchmarks.best_known import Row, measure_solve
from optplan.lab.scaling import ScalingMode, ScalingPoint, ScalingStudy, study_scaling
from optplan.reporting.srift.words import format_count
from optplan.solving import choose_solver, pareto, solve
from suites import bayesian
from suites.boa import compare_rows
from suites.rows import timed

_EXACT = "best-first"
#: The paper's cases, and what answers them: the paper's own planners first, then engines that know nothing of it.
_CASES = ("srift-case1", "srift-case2", "srift-case3", "srift-interruption")
_PLANNERS = (
    "published-exhaustive",
    "published-eager",
    "published-cost-aware",
    "published-throughput-aware",
)
_ENGINES = ("highs", bayesian.NAME)
_ENGINE_LIMIT_S = 30.0
#: Large problems: VMs of each type, global batch, choices of batches; seconds that the exact solver gets.
_MOST, _BATCH, _CHOICES, _LIMIT_S = 64, 8192, 6, 10.0
_SEEDS = 6
#: What grows, one at a time, from 4 types with 16 VMs.
_TYPES, _COUNTS, _GROWN_BATCH = (2, 4, 6, 8, 12, 24), (8, 16, 32, 64), 2048
_EVALUATIONS = 200
#: What the answers to a conclusion of the paper are called.
_ANSWERS = {True: "holds", False: "does not hold", None: "cannot be said"}


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite.

    Quick takes two of the paper's cases without engines, and one large problem; full asks CP-SAT about the large
    problems, and takes more of them.
    """
    bayesian.register()
    solve(read_instance("srift-case2", SriftInstance))  # loads every module, so that no row pays for imports
    for name in _CASES[1:3] if quick else _CASES:
        yield from _case_rows(read_instance(name, SriftInstance), engines=not quick)
        yield from _scaling_rows(read_instance(name, SriftInstance))
    seeds = range(1 if quick else _SEEDS * (3 if full else 1))
    for types in (4,) if quick else (4, 12, 24):
        for seed in seeds:
            yield from _large_rows(types, seed, engine=full)
    if not quick:
        yield from _growth_rows()
    yield _evaluation_row()


def _case_rows(instance: SriftInstance, *, engines: bool) -> Iterator[Row]:
    """Measure the exact solver, the frontier, the paper's planners, and engines."""
    exact = measure_solve(instance, instance.name, _EXACT)
    yield exact
    yield _frontier_row(instance, instance.name)
    for planner in _PLANNERS:
        yield compare_rows(measure_solve(instance, instance.name, planner), exact)
    for engine in _ENGINES if engines else ():
        if _takes(engine, instance):
            row = measure_solve(instance, instance.name, engine, time_limit_s=_ENGINE_LIMIT_S)
            yield compare_rows(row, exact)


def _scaling_rows(instance: SriftInstance) -> Iterator[Row]:
    """Study weak and strong scaling; ``extra`` says of each of the paper's conclusions whether it holds."""
    for mode in ScalingMode:
        study, seconds, peak = timed(partial(study_scaling, instance, mode))
        said = {one.claim: f"{_ANSWERS[one.holds]}; {one.said}" for one in check_conclusions(study)}
        label = f"{instance.name}@{mode.value}-scaling"
        yield Row(instance=label, solver="study", status="completed", seconds=seconds, peak_mb=peak, extra={**said})


def _large_rows(types: int, seed: int, *, engine: bool) -> Iterator[Row]:
    """Measure the cheapest and the fastest fleet, and both within a limit between the two."""
    make = partial(random_srift, types=types, most=_MOST, global_batch=_BATCH, batches=_CHOICES, seed=seed)
    cheap, fast = make(objective=Objective.COST), make(objective=Objective.TIME)
    both = [solve(one, time_limit_s=_LIMIT_S) for one in (cheap, fast)]
    least_usd, least_s = (result.objective or math.inf for result in both)
    time_s, cost_usd = both[0].measures.get("time_s", math.inf), both[1].measures.get("cost_usd", math.inf)
    asked = [("cheapest", cheap), ("fastest", fast)]
    if math.isfinite(time_s * cost_usd * least_s * least_usd):
        asked.append(("cheapest-in-time", cheap.replace(deadline_s=math.sqrt(time_s * least_s))))
        asked.append(("fastest-in-budget", fast.replace(budget=f"{math.sqrt(cost_usd * least_usd):.6g}usd")))
    for kind, instance in asked:
        label, extra = f"{types}x{_MOST}-seed{seed}@{kind}", {"types": float(types), "most": float(_MOST)}
        exact = measure_solve(instance, label, _EXACT, time_limit_s=_LIMIT_S, extra=dict(extra))
        yield exact
        yield compare_rows(measure_solve(instance, label, "published-eager", extra=dict(extra)), exact)
        if engine and _takes("highs", instance):
            row = measure_solve(instance, label, "highs", time_limit_s=_ENGINE_LIMIT_S, extra=dict(extra))
            yield compare_rows(row, exact)


def _takes(solver: str, instance: SriftInstance) -> bool:
    """Whether a solver is installed and takes an instance of this size."""
    try:
        choose_solver(instance, solver)
    except UnsupportedError:
        return False
    return True


def _growth_rows() -> Iterator[Row]:
    """Grow types, then VMs of each; also with several batches per type."""
    grown = [("types", types, {"types": types, "most": 16}) for types in _TYPES]
    grown += [("most", most, {"types": 4, "most": most}) for most in _COUNTS]
    for field, size, sizes in grown:
        for objective in Objective:
            base = random_srift(**sizes, global_batch=_GROWN_BATCH, batches=_CHOICES, seed=1, objective=objective)
            for one in (True, False):
                kind = f"{objective.value}-{'one-batch' if one else 'any-batches'}"
                extra: dict[str, float | str] = {"grows": field, "size": float(size), "kind": kind}
                instance, label = base.replace(one_batch_per_type=one), f"{field}={size}@{kind}"
                yield measure_solve(instance, label, _EXACT, time_limit_s=_LIMIT_S, extra=extra)


def _frontier_row(instance: SriftInstance, label: str) -> Row:
    found, _, peak = timed(partial(pareto, instance, time_limit_s=_LIMIT_S))
    return Row(
        instance=f"{label}@frontier",
        solver="pareto",
        status="optimal" if found.exact else "feasible",
        bound_proof="searched" if found.exact else "none",
        seconds=found.solve_seconds,
        peak_mb=peak,
        extra={"points": float(len(found.points))},
    )


def _evaluation_row() -> Row:
    """Measure how many fleets a second are judged: case 3 with its 170 layers, each fleet anew."""
    instance = read_instance("srift-case3", SriftInstance)
    result = solve(instance, solver=_EXACT)
    groups = result.solution.groups if isinstance(result.solution, SriftSolution) else ()

    def judge() -> None:
        for _ in range(_EVALUATIONS):
            FleetJudge(instance).judge(groups)

    _, seconds, peak = timed(judge)
    return Row(
        instance="srift-case3@evaluation",
        solver="evaluator",
        status="completed",
        seconds=seconds / _EVALUATIONS,
        peak_mb=peak,
        extra={"evaluations_per_s": _EVALUATIONS / seconds, "layers": float(instance.job.layers.gradient_bytes.size)},
    )


#: Relative differences below this are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Finding:
    """A conclusion and what a study says of it."""

    claim: str  # the conclusion, and where it stands
    holds: bool | None  # None where the study cannot say
    said: str  # what was found


def check_conclusions(study: ScalingStudy) -> tuple[Finding, ...]:
    """Compare the conclusions with a study: of weak scaling three, of strong scaling one for each type."""
    if study.mode is ScalingMode.STRONG:
        return tuple(_check_spread(study, name) for name in study.types if len(study.points_of(name)) > 1)
    return (_check_generations(study), *(_check_decay(study, name) for name in study.types), _check_case_by_case(study))


def _check_generations(study: ScalingStudy) -> Finding:
    """3.2: the fastest VM is not the one that gives most for its price."""
    claim = "3.2: the type with the highest throughput is not the most cost-efficient"
    if len(study.types) < 2:
        return Finding(claim=claim, holds=None, said="there is only one type")
    least = [study.points_of(name)[0] for name in study.types]
    fastest = max(least, key=lambda point: point.samples_per_s)
    best = max(least, key=lambda point: point.samples_per_usd)
    said = (
        f"{_count(fastest)} has most samples a second ({format_count(fastest.samples_per_s)}), "
        f"{_count(best)} most samples for a dollar ({format_count(best.samples_per_usd)})"
    )
    return Finding(claim=claim, holds=fastest.type != best.type, said=said)


def _check_decay(study: ScalingStudy, name: str) -> Finding:
    """3.4: cost-efficiency falls with the size of the fleet."""
    claim = f"3.4: cost-efficiency of {name} falls as the fleet grows"
    points = study.points_of(name)
    if len(points) < 2:
        return Finding(claim=claim, holds=None, said="there is only one size")
    rises = [
        after for before, after in pairwise(points) if after.samples_per_usd > before.samples_per_usd * (1 + _ROUNDING)
    ]
    first, last = points[0], points[-1]
    said = f"{_count(last)} reach {last.samples_per_usd / first.samples_per_usd:.0%} of that of {_count(first)}"
    if rises:
        said += f"; it rises at {', '.join(_count(point) for point in rises)}"
    return Finding(claim=claim, holds=not rises, said=said)


def _check_case_by_case(study: ScalingStudy) -> Finding:
    """3.4: which type is the most cost-efficient depends on the size of the fleet."""
    claim = "3.4: the most cost-efficient type depends on the number of VMs"
    best: dict[int, ScalingPoint] = {}
    for vms in sorted({point.vms for point in study.points}):
        rivals = [point for point in study.points if point.vms == vms]
        if len(rivals) == len(study.types) > 1:
            best[vms] = max(rivals, key=lambda point: point.samples_per_usd)
    if len(best) < 2:
        return Finding(claim=claim, holds=None, said="there are no two sizes that all of several types have")
    said = ", ".join(f"{_count(point)}" for point in best.values())
    return Finding(claim=claim, holds=len({point.type for point in best.values()}) > 1, said=f"best: {said}")


def _check_spread(study: ScalingStudy, name: str) -> Finding:
    """3.4: with a given global batch, no number of VMs is best for both throughput and cost."""
    points = study.points_of(name)
    speeds = [point.samples_per_s for point in points]
    costs = [point.usd_per_iteration for point in points]
    fastest = max(points, key=lambda point: point.samples_per_s)
    cheapest = min(points, key=lambda point: point.usd_per_iteration)
    said = (
        f"throughput differs by a factor of {max(speeds) / min(speeds):.2g}, cost by {max(costs) / min(costs):.2g}; "
        f"fastest are {_count(fastest)} with {fastest.batch_per_rank:,} samples on each GPU, "
        f"cheapest {_count(cheapest)} with {cheapest.batch_per_rank:,}"
    )
    return Finding(
        claim=f"3.4: no batch per GPU is both fastest and cheapest on {name}",
        holds=fastest.vms != cheapest.vms,
        said=said,
    )


def _count(point: ScalingPoint) -> str:
    return f"{point.vms} {point.type}"
