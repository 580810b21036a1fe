"""The conclusions of Srift's section 3, each compared with a scaling study, as far as that can say anything."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from optplan.formulations.srift.study.scaling import ScalingMode, ScalingPoint, ScalingStudy

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
        f"{_count(fastest)} has most samples a second ({_write(fastest.samples_per_s)}), "
        f"{_count(best)} most samples for a dollar ({_write(best.samples_per_usd)})"
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


def _write(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
