"""What a run measured, written back into the instance: the next plan is made from it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optplan.contracts.standing import MeasuredTrial, Standing
from optplan.errors import UsageError
from optplan.formulations.rubberband.data.cloud import Cloud
from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    LogNormalDistribution,
    LogNormalNoise,
    Noise,
    NormalDistribution,
    NormalNoise,
)
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.data.training import MeasuredSeconds, ScaledSeconds, TrainingProfile
from optplan.formulations.rubberband.planning import RubberBandPlan
from optplan.speedup import NOT_SAID, Evidence
from optplan.speedup.curves import find_weakest
from optplan.units import format_duration

#: Relative deviations below it are none.
_CONSTANT = 1e-3
#: From this relative deviation on a normal distribution would be clipped noticeably.
_SKEWED = 1.0 / 6.0
#: Fewest trials from which a deviation is told.
_FEWEST = 4


def calibrate(
    instance: RubberBandInstance,
    plan: RubberBandPlan,  # noqa: ARG001 - what trials had is in what was measured; the contract names the parameter
    standing: Standing,
) -> tuple[RubberBandInstance, tuple[str, ...]]:
    """Write what was measured into profile and cloud, widths that were not at their old ratio; say what changed."""
    trials = [trial for trial in standing.trials if trial.iterations and trial.iteration_s > 0]
    if not trials and not standing.nodes:
        raise UsageError("nothing was measured: no trial of the run has ended a segment")
    said: list[str] = []
    training = _calibrate_training(instance.training, trials, said) if trials else instance.training
    cloud = _calibrate_cloud(instance.cloud, standing, said)
    return instance.replace(training=training, cloud=cloud), tuple(said)


def _calibrate_training(training: TrainingProfile, trials: Sequence[MeasuredTrial], said: list[str]) -> TrainingProfile:
    by_width: dict[int, list[MeasuredTrial]] = {}
    for trial in trials:
        by_width.setdefault(trial.gpus, []).append(trial)
    measured = {gpus: _seconds_on_one(training, by_width[gpus]) for gpus in sorted(by_width)}
    known = np.array([gpus for gpus in measured if training.seconds_per_iteration.knows(np.array([gpus]))[0]])
    for gpus, seconds in measured.items():
        before = float(training.seconds_per_iteration.at(np.array([gpus]))[0]) if gpus in known else None
        _say(said, f"training.seconds_per_iteration.{gpus}", seconds, before)
    starts = {gpus: _fit([trial.overhead_s for trial in own]) for gpus, own in sorted(by_width.items())}
    first, *others = starts
    for gpus, start in starts.items():
        what = f"training.start_s on {gpus} GPU{'s' if gpus > 1 else ''}"
        _say(said, what, start.expected_s, float(training.start(gpus).expected_s))
    start_s_on = {name: start for name, start in training.start_s_on.items() if int(name) > first}
    start_s_on |= {str(gpus): starts[gpus] for gpus in others}
    return training.replace(
        seconds_per_iteration=_merge_seconds(training, measured),
        start_s=starts[first],
        start_s_on=start_s_on,
        **_calibrate_noise(training, by_width, said),
    )


def _seconds_on_one(training: TrainingProfile, trials: Sequence[MeasuredTrial]) -> float:
    """Return the mean seconds of an iteration, without what spanning several instances adds."""
    table = training.factor_by_instances

    def factor(nodes: int) -> float:
        return 1.0 if table is None else float(np.interp(nodes, table.instances, table.factor))

    done = sum(trial.iterations for trial in trials)
    return sum(trial.iterations * trial.iteration_s / factor(trial.nodes) for trial in trials) / done


def _merge_seconds(training: TrainingProfile, measured: dict[int, float]) -> MeasuredSeconds | ScaledSeconds:
    """Put measured seconds where they were measured; elsewhere the profile's, times the ratio of the nearest widths."""
    curve = training.seconds_per_iteration
    widths = np.array(sorted(measured))
    known = widths[curve.knows(widths)]
    ratios = np.array([measured[int(gpus)] for gpus in known]) / curve.at(known) if known.size else np.ones(0)
    if isinstance(curve, ScaledSeconds) and (curve.most_gpus is None or known.size < widths.size):
        weights = np.exp(np.log(ratios).mean()) if ratios.size else 1.0
        return curve.replace(base_s=curve.base_s * float(weights))
    listed = curve.gpus if isinstance(curve, MeasuredSeconds) else curve.speedup.known_widths()
    gpus = np.union1d(np.asarray(listed, dtype=np.int64), widths)
    seconds = [
        measured[each]
        if each in measured
        else float(curve.at(np.array([each]))[0] * np.interp(math.log(each), np.log(known), ratios))
        for each in map(int, gpus)
    ]
    all_measured = set(gpus.tolist()) <= set(measured)
    kind = Evidence.MEASURED if all_measured else find_weakest([Evidence.FITTED, curve.comes_from])
    evidence = None if kind == NOT_SAID else Evidence(kind)
    return MeasuredSeconds(gpus=gpus, seconds=np.array(seconds), evidence=evidence)


def _calibrate_noise(
    training: TrainingProfile, by_width: dict[int, list[MeasuredTrial]], said: list[str]
) -> dict[str, Noise | None]:
    """Tell apart how iterations vary and how trials do; what too few trials tell of stays as it was."""
    trials = [trial for own in by_width.values() for trial in own]
    if len(trials) < _FEWEST:
        return {}
    noise: dict[str, Noise | None] = {}
    shares = [(t.iteration_sd_s / t.iteration_s) ** 2 for t in trials if t.iteration_sd_s is not None]
    mean_s = float(np.mean([trial.iteration_s for trial in trials]))
    iteration = training.iteration(mean_s).deviation_s / mean_s
    if shares:
        _say(said, "training.iteration_noise", math.sqrt(np.mean(shares)), iteration, unit="")
        iteration = math.sqrt(np.mean(shares))
        noise["iteration_noise"] = _name_noise(iteration, training.iteration_noise)
    means = {gpus: np.mean([trial.iteration_s for trial in own]) for gpus, own in by_width.items()}
    away = [trial.iteration_s / means[trial.gpus] - 1.0 for trial in trials]
    free = max(1, len(trials) - len(by_width))
    variance = sum(each**2 for each in away) / free
    variance -= iteration**2 * float(np.mean([1.0 / trial.iterations for trial in trials]))
    pace = math.sqrt(max(0.0, variance))
    _say(said, "training.trial_noise", pace, training.pace(mean_s).deviation_s / mean_s, unit="")
    return noise | {"trial_noise": _name_noise(pace, training.trial_noise)}


def _name_noise(fraction: float, before: Noise | None) -> Noise | None:
    if fraction <= _CONSTANT:
        return None
    skewed = fraction > _SKEWED or isinstance(before, LogNormalNoise)
    return LogNormalNoise(sd_fraction=fraction) if skewed else NormalNoise(sd_fraction=fraction)


def _calibrate_cloud(cloud: Cloud, standing: Standing, said: list[str]) -> Cloud:
    nodes = standing.nodes
    if not nodes:
        return cloud
    requests, launches = _fit([node.request_s for node in nodes]), _fit([node.launch_s for node in nodes])
    _say(said, "cloud.provision_s", requests.expected_s, cloud.provision_s.expected_s)
    _say(said, "cloud.initialise_s", launches.expected_s, cloud.initialise_s.expected_s)
    prices = [node.usd_per_hour for node in nodes if node.usd_per_hour is not None]
    price = float(np.mean(prices)) if prices else cloud.price_usd_per_hour
    if not math.isclose(price, cloud.price_usd_per_hour, rel_tol=_CONSTANT):
        _say(said, "cloud.price_usd_per_hour", price, cloud.price_usd_per_hour, unit="usd")
        cloud = cloud.replace(price_usd_per_hour=price, price_source="paid in a run", price_date="")
    return cloud.replace(provision_s=requests, initialise_s=launches)


def _fit(seconds: Sequence[float]) -> Distribution:
    mean_s = max(0.0, float(np.mean(seconds)))
    sd_s = float(np.std(seconds, ddof=1)) if len(seconds) >= _FEWEST else 0.0
    if sd_s <= _CONSTANT * mean_s:
        return ConstantDistribution(value_s=mean_s)
    if sd_s > _SKEWED * mean_s:
        return LogNormalDistribution(mean_s=mean_s, sd_s=sd_s)
    return NormalDistribution(mean_s=mean_s, sd_s=sd_s)


def _say(said: list[str], what: str, now: float, before: float | None, unit: str = "s") -> None:
    """Note a figure that is another one now."""
    if before is not None and math.isclose(now, before, rel_tol=_CONSTANT, abs_tol=1e-9):
        return

    def write(value: float) -> str:
        return format_duration(value) if unit == "s" else f"{value:.4g} {unit}".rstrip()

    said.append(f"{what}: {write(now)}" + ("" if before is None else f", was {write(before)}"))
