"""From BOA's widths to a plan: what a job of each class holds from its arrival to its last epoch.

A plan of streams is looked up: :func:`choose_way` says which way a job takes when it arrives, and
:meth:`BoaPlan.held_at` what it holds once it has completed so many epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from optplan.contracts.conditions import Arrived, EpochsDone
from optplan.contracts.explanation import ExplainedChoice
from optplan.contracts.plan import Binding, Expected, Limit, Plan, Segment, Semantics, Unit, UnitKind, follow, span
from optplan.contracts.resources import Billing, Resource
from optplan.contracts.result import Result, describe_origin, require_solution
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem, has_real_widths
from optplan.formulations.boa.exact.peak.demand import forecast_demand
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.judge.following import follow_epochs, speeds_along, types_along
from optplan.schema import LARGEST_COUNT, NUMBER, ByName, FloatArray, FrozenModel, WholeNumbers
from optplan.speedup import lower_left_hull
from optplan.units import SECONDS_PER_HOUR


class WidthRow(FrozenModel):
    """One row of the width table."""

    share: float  # fraction of the class's jobs that follow the row
    gpus: WholeNumbers  # (E,) in each epoch
    gpu_types: tuple[str, ...] | None = None  # (E,) in each epoch; None where the instance has one type


class JobClassUnit(Unit):
    """A class of jobs."""

    kind: Literal[UnitKind.JOB_CLASS] = UnitKind.JOB_CLASS
    arrival_rate_per_hour: Annotated[float, Field(gt=0)]  # segments add up to averages with it
    weight: Annotated[float, Field(gt=0)] = 1.0  # in the objective
    epochs: Annotated[int, Field(ge=1, le=LARGEST_COUNT), NUMBER]  # of a job


class StreamSemantics(Semantics):
    """What holds for streams of jobs besides."""

    positions: Literal["epochs-completed"] = "epochs-completed"  # since its arrival: 0 in the first epoch
    unknown_class: Literal["one-gpu"] = "one-gpu"  # for classes that are not in the plan, outside of its expectations
    beyond_last_epoch: Literal["as-in-last"] = "as-in-last"  # of its class
    shares: Literal["furthest-behind"] = "furthest-behind"  # as :func:`choose_way` deals ways out


class BoaPlan(Plan):
    """What a job of each class holds, epoch by epoch; quantities of segments are those of one job."""

    LATER: ClassVar[frozenset[str]] = Plan.LATER | {"demand"}

    formulation: Literal["boa"] = "boa"
    units: tuple[JobClassUnit, ...]
    semantics: StreamSemantics
    #: Which class holds what where, and what forcing it elsewhere would cost; empty unless the plan was made with an
    #: explanation.
    reasons: tuple[ExplainedChoice, ...] = ()
    #: GPUs in use at once, as :func:`~optplan.formulations.boa.exact.peak.demand.forecast_demand` names the figures.
    demand: ByName[float] = Field(default_factory=dict)

    @cached_property
    def ways(self) -> dict[str, tuple[tuple[Segment, ...], ...]]:
        """By class, the ways that its jobs take."""
        return {
            unit.id: tuple(follow([segment for segment in self.segments if segment.unit == unit.id]))
            for unit in self.units
        }

    @property
    def width_table(self) -> dict[str, tuple[WidthRow, ...]]:
        """By class: rows of GPUs per epoch, and of their types where there are several resources."""
        return {name: tuple(self._write_row(way) for way in ways) for name, ways in self.ways.items()}

    def held_at(self, job_class: str, way: int, epochs_done: int) -> Segment | None:
        """Return the segment that a job is in; None for a class that the plan does not have.

        Parameters
        ----------
        way
            As :func:`choose_way` chose it, from 0.
        epochs_done
            How many epochs the job has completed; beyond its last one it stays in the last segment.
        """
        ways = self.ways.get(job_class)
        if ways is None:
            return None
        return next((each for each in ways[way] if epochs_done < span(each)[1]), ways[way][-1])

    def totals(self) -> dict[str, float]:
        """Recompute time averages from the segments and the arrival rates alone.

        Returns
        -------
        dict
            ``gpus`` held on average, ``mean_jct_s`` and ``weighted_mean_jct_s`` of a job, and ``cost_usd_per_hour``
            where prices are known.
        """
        units = {unit.id: unit for unit in self.units}
        rated = [(units[s.unit], s.share * units[s.unit].arrival_rate_per_hour, s.expected) for s in self.segments]
        rate = sum(unit.arrival_rate_per_hour for unit in self.units)
        weight = sum(unit.weight * unit.arrival_rate_per_hour for unit in self.units)
        totals = {
            "gpus": sum(jobs * expected.gpu_hours for _, jobs, expected in rated),
            "mean_jct_s": sum(jobs * expected.seconds for _, jobs, expected in rated) / rate,
            "weighted_mean_jct_s": sum(u.weight * jobs * expected.seconds for u, jobs, expected in rated) / weight,
        }
        if all(expected.cost_usd is not None for _, _, expected in rated):
            totals["cost_usd_per_hour"] = sum(jobs * (expected.cost_usd or 0.0) for _, jobs, expected in rated)
        return totals

    def _write_row(self, way: tuple[Segment, ...]) -> WidthRow:
        epochs = [last - first for first, last in map(span, way)]
        types = np.repeat([segment.resource for segment in way], epochs)
        return WidthRow(
            share=way[0].share,
            gpus=np.repeat([segment.gpus for segment in way], epochs),
            gpu_types=tuple(types.tolist()) if len(self.resources) > 1 else None,
        )


def choose_way(shares: Sequence[float], dealt: Sequence[int]) -> int:
    """Return the way of the next job of a class: that which is furthest behind its share. No dice are needed.

    Parameters
    ----------
    shares
        Of the class's ways; they add up to one.
    dealt
        How many jobs each of them has got.

    Returns
    -------
    int
        Number of the way, from 0; of equal ones the first. After any number of jobs, no way is a whole job per other
        way away from its share.
    """
    total = sum(dealt) + 1
    behind = [share * total - got for share, got in zip(shares, dealt, strict=True)]
    return behind.index(max(behind))


def build_plan(instance: BoaInstance, result: Result[BoaSolution]) -> BoaPlan:
    """Turn widths into segments; ``expected`` is what the plan itself amounts to.

    Real widths (problem continuous) become two whole widths for fractions of the *jobs*, never within an epoch, so that
    the GPU use of every epoch stays what it was.
    """
    solution = require_solution(result)
    run_instance, run_solution = as_run(instance, solution)
    run_instance = run_instance.replace(policy=Policy.MIXED)
    judged = evaluate(run_instance, run_solution)
    return BoaPlan(
        **describe_origin(result),
        objective=judged.objective,
        limits=_limits(instance),
        resources={name: _describe(instance, name) for name in instance.gpu_types},
        units=tuple(
            JobClassUnit(
                id=name,
                label=f"jobs of class {name}",
                arrival_rate_per_hour=job_class.arrival_rate_per_hour,
                weight=job_class.weight,
                epochs=job_class.num_epochs,
            )
            for name, job_class in instance.classes.items()
        ),
        segments=tuple(
            segment
            for name, rows in run_solution.branches.items()
            for number, branch in enumerate(rows, start=1)
            for segment in _list_segments(run_instance, name, number, branch)
        ),
        semantics=SEMANTICS,
        expected=judged.measures,
        demand=forecast_demand(run_instance, run_solution),
    )


SEMANTICS = StreamSemantics(
    epoch="a part of a job's work, as long as its class says; widths change between two epochs only",
    origin="the job's arrival",
    rounding="real widths are whole ones for fractions of the jobs, so that the GPU use of each epoch is kept",
)


def _limits(instance: BoaInstance) -> dict[str, Limit]:
    names = instance.limit_names if instance.budget is not None else instance.further_limits
    given = {name: instance.limit_as_given(name) for name in names}
    return {name: Limit(amount=amount, unit=unit, binding=Binding.AVERAGE) for name, (amount, unit) in given.items()}


def _describe(instance: BoaInstance, name: str) -> Resource:
    """Describe a GPU type; BOA knows no nodes, so that one GPU is one."""
    gpu_type = instance.gpu_types[name]
    return Resource(
        gpu_type=name,
        price_usd_per_hour=gpu_type.price_usd_per_hour,
        price_source=gpu_type.price_source,
        price_date=gpu_type.price_date,
        billing=Billing.GPUS,
        launch_s=gpu_type.start_s or 0.0,
        spot=gpu_type.spot is not None,
    )


def _list_segments(instance: BoaInstance, name: str, number: int, branch: Branch) -> Iterator[Segment]:
    """Yield the segments of one branch: a new one begins wherever the GPUs change."""
    timing = follow_epochs(instance, name, branch)
    types = types_along(instance, branch)
    firsts = np.append(np.flatnonzero(timing.change), branch.widths.size).tolist()
    ends_s = np.cumsum(timing.total_h) * SECONDS_PER_HOUR
    logged = instance.classes[name].logged
    for first, end in pairwise(firsts):
        epochs = slice(first, end)
        gpus, gpu_type = int(branch.widths[first]), str(types[first])
        begins_s = float(ends_s[first - 1]) if first else 0.0
        held_h = float(timing.paid[first] * timing.held_h[epochs].sum())
        member_s = float(timing.held_h[epochs].sum()) * SECONDS_PER_HOUR
        price = instance.gpu_types[gpu_type].price_usd_per_hour
        of_type = f" of {gpu_type}" if len(instance.gpu_types) > 1 else ""
        which = f"epochs {first + 1} to {end}" if end > first + 1 else f"epoch {end}"
        yield Segment(
            id=f"{name}/{number}/{first + 1}",
            label=f"{name}, {which}: {gpus} GPU{'s' if gpus > 1 else ''}{of_type}",
            unit=name,
            share=branch.fraction,
            resource=gpu_type,
            pool=name,
            nodes=gpus,
            workers=gpus,
            enter=EpochsDone(epochs=first) if first else Arrived(),
            exit=EpochsDone(epochs=end),
            expected=Expected(
                start_s=begins_s,
                seconds=float(timing.total_h[epochs].sum()) * SECONDS_PER_HOUR,
                pause_s=float(timing.pause_h[first] * timing.wall[first]) * SECONDS_PER_HOUR,
                member_s=member_s,
                member_sd_s=0.0 if logged is None else logged.size_spread * member_s,
                gpu_hours=held_h,
                busy_gpu_hours=held_h,
                cost_usd=None if price is None else price * held_h,
            ),
        )


def as_run(instance: BoaInstance, solution: BoaSolution) -> tuple[BoaInstance, BoaSolution]:
    """Return the problem with whole widths that a solution is run as: real ones are fractions of the jobs."""
    if instance.problem is not Problem.CONTINUOUS:
        return instance, solution
    branches = {name: tuple(_whole_branches(instance, name, rows)) for name, rows in solution.branches.items()}
    return instance.replace(problem=Problem.WHOLE, policy=Policy.MIXED), BoaSolution(branches=branches)


def _whole_branches(instance: BoaInstance, name: str, rows: tuple[Branch, ...]) -> list[Branch]:
    """Divide real widths among whole ones, epoch by epoch at the same GPU-hours; sorted splits give the branches."""
    branches = []
    for row in rows:
        split = np.array([row.widths, row.widths, np.zeros(row.widths.size)])
        types = types_along(instance, row)
        for gpu_type in np.unique(types).tolist():
            # With several types fractions are rows of their own already, except for the real widths of closed forms.
            if not instance.is_typed or has_real_widths(instance, name, gpu_type):
                epochs = types == gpu_type
                split[:, epochs] = _neighbours(instance, name, gpu_type, row.widths)[:, epochs]
        low, high, high_fraction = split
        cuts = np.unique(np.concatenate(([0.0, 1.0], high_fraction)))
        for start, end in pairwise(cuts.tolist()):
            widths = np.where(high_fraction > (start + end) / 2, high, low)
            branches.append(row.replace(fraction=row.fraction * (end - start), widths=widths))
    return branches


def _neighbours(instance: BoaInstance, name: str, gpu_type: str, widths: FloatArray) -> FloatArray:
    """Find (3, E) the two whole widths around each real one, and the fraction of jobs that gets the larger."""
    allowed = instance.allowed_widths(name, gpu_type)
    speeds = np.broadcast_to(instance.speeds(name, gpu_type), (widths.size, allowed.size))
    hulls = [allowed[vertex] for vertex in lower_left_hull(allowed / speeds, 1.0 / speeds)]
    known = list(zip(hulls, widths.tolist(), strict=True))
    below = np.array([hull[max(hull.searchsorted(width, side="right") - 1, 0)] for hull, width in known])
    above = np.array([hull[min(hull.searchsorted(width), hull.size - 1)] for hull, width in known])
    # GPU-hours per GPU-hour of size at the two whole widths and at the real one: the split keeps them.
    use_below, use_above = (
        each / speeds[np.arange(widths.size), allowed.searchsorted(each)] for each in (below, above)
    )
    wanted = widths / speeds_along(instance, name, widths, gpu_type)
    spread = use_above - use_below
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.where(spread > 0, np.clip((wanted - use_below) / spread, 0.0, 1.0), 0.0)
    return np.array([below, above, fraction])
