"""The instance as it is for every policy: some jobs on the widths that are known, and none of the limits."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.units import Amount, BudgetUnit


def relax(instance: BoaInstance, jobs: Mapping[str, float], *, pauses: bool) -> BoaInstance:
    """Return the instance of so many jobs an hour in which nothing limits a policy but the GPU-hours of them all."""
    # Rules of widths, whole nodes, interruptions and weights only add to what jobs take. A change of type takes what
    # the shortest one to that type takes, as a policy may go by a third type.
    return instance.replace(
        classes={
            name: job_class.replace(
                arrival_rate_per_hour=jobs[name],
                widths=_free(job_class, instance.widths),
                weight=1.0,
                most_mean_jct_s=None,
                least_mean_gpus=None,
                type_change_s_from=_shorten_changes(job_class),
            )
            for name, job_class in instance.classes.items()
            if jobs.get(name)
        },
        gpu_types={
            name: each.replace(spot=None, quota_gpus=None, commitments=None, spot_market=None)
            for name, each in instance.gpu_types.items()
        },
        widths=None,
        budget=Amount(1.0, BudgetUnit.GPU),
        problem=Problem.RESCALING if pauses else Problem.WHOLE,
        policy=Policy.MIXED,
        most_gpus=None,
        whole_nodes=None,
    )


def _free(job_class: JobClass, rule: Widths | None) -> Widths | None:
    """Allow all widths that tables know, and of formulas all up to the widest that is allowed, or known, anywhere."""
    known = [curve.known_widths() for curve in job_class.speedup.values()]
    own = job_class.widths or rule
    if own is None or all(widths is not None for widths in known):
        return None
    return Widths(max=max(int(widths[-1]) for widths in (*known, own.rule()) if widths is not None))


def _shorten_changes(job_class: JobClass) -> dict[str, dict[str, float]]:
    """Return by type left and entered what the shortest change to that type takes, where these differ."""
    types, of = list(job_class.speedup), job_class.type_change_s_of
    if not job_class.type_change_s_from or len(types) < 2:
        return {}
    least = {entered: min(of(left, entered) for left in types if left != entered) for entered in types}
    return {left: {entered: least[entered] for entered in types if entered != left} for left in types}


def has_pauses(instance: BoaInstance) -> bool:
    """Whether starts or changes take jobs of any class any time."""
    rescaling = instance.replace(problem=Problem.RESCALING)
    return any((rescaling.options(name).pause_h + rescaling.options(name).change_h).any() for name in instance.classes)
