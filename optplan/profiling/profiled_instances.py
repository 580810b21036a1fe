"""Instances with what was timed in them: a search's sections, and the speedup of a class of jobs.

Profiles of training jobs as files, and several devices' profiles in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.srift.data.profiles import JobProfile, Layers
from optplan.instances.plain_data import read_data
from optplan.profiling.trial_timings import Estimate, MeasuredSpeedup, SearchTimings, describe_seconds
from optplan.schema import FloatArray

#: What a search's instance has to have besides what is timed.
_NEEDED = ("experiment", "cloud.gpus_per_instance", "cloud.price_usd_per_hour")


def describe_search(
    measured: SearchTimings, request_s: float, launch_s: float, source: str, **given: float | None
) -> dict[str, Any]:
    """Return the sections of a search's instance as plain data.

    Parameters
    ----------
    measured
        Times of its trials.
    request_s, launch_s
        Seconds from asking for a node to the beginning of its launch, and from there until it could train.
    source
        How it was measured, in words.
    **given
        Other fields of the cloud; None where they were not given. They go before what was measured.
    """
    took = {"provision_s": request_s, "initialise_s": launch_s}
    cloud = {name: describe_seconds(Estimate.of([seconds])) for name, seconds in took.items()}
    return {
        "formulation": "rubberband",
        "version": 1,
        "name": "profiled",
        "source": {"profile": source},
        "training": measured.make_training().to_json_data(),
        "cloud": cloud | _drop_missing(given),
    }


def list_missing(sections: dict[str, Any]) -> list[str]:
    """List the fields that sections still need to be an instance that can be solved."""
    known = {*sections, *(f"cloud.{field}" for field in sections["cloud"])}
    return [name for name in _NEEDED if name not in known]


def renew_search(
    base: RubberBandInstance, measured: SearchTimings, source: str, **given: float | None
) -> RubberBandInstance:
    """Return a search's instance with the times of its trials as they were measured.

    What one machine cannot time stays: what spanning several instances adds, the most GPUs of a trial, and the cloud,
    but for the fields that are ``given`` (None leaves one); ``source`` says how it was measured.
    """
    kept = {"factor_by_instances": base.training.factor_by_instances, "most_gpus": base.training.most_gpus}
    return base.replace(
        training=measured.make_training().replace(**_drop_missing(kept)),
        cloud=base.cloud.replace(**_drop_missing(given)),
        source=dict(base.source) | {"profile": source},
    )


def renew_pauses(base: SeerInstance, measured: SearchTimings, source: str) -> SeerInstance:
    """Return a SEER search whose rounds begin with the mean time until a trial goes on from its checkpoint."""
    pause_s = float(f"{measured.restart_s.mean:.5g}")
    return base.replace(resize_s=pause_s, source=dict(base.source) | {"profile": source})


def describe_class(measured: MeasuredSpeedup, gpu_type: str) -> dict[str, Any]:
    """Return the fields of a class of jobs that were measured on a type of GPU, as plain data."""
    return {
        "reference_width": measured.reference_width,
        "rescale_s": float(f"{measured.rescale_s.mean:.5g}"),
        "speedup": {gpu_type: measured.curve.to_json_data()},
    }


def require_class(base: BoaInstance, name: str, gpu_type: str, fewest: int) -> None:
    """Refuse to measure a class that :func:`renew_class` could not put in: unknown, or its sizes of other GPUs."""
    for what, wanted, known in (("class", name, base.classes), ("gpu_type", gpu_type, base.gpu_types)):
        if wanted not in known:
            raise UsageError(f"{what}: {base.name} has no {wanted!r}; {nearest_name_hint(wanted, known)}")
    reference = base.classes[name].reference_width
    if reference != fewest:
        problem = f"got {fewest} as the fewest, and {name}'s sizes are those on {reference}"
        raise UsageError(f"gpus: {problem}; begin with {reference}")


def renew_class(base: BoaInstance, name: str, measured: MeasuredSpeedup, gpu_type: str, source: str) -> BoaInstance:
    """Return an instance with a class's speedup and pauses as they were measured.

    Parameters
    ----------
    base, name, gpu_type
        The instance, its class, and one of its GPU types.
    measured
        The class's speedup.
    source
        How it was measured, in words.

    Raises
    ------
    UsageError
        As :func:`require_class`.
    """
    require_class(base, name, gpu_type, measured.reference_width)
    old = base.classes[name]
    if len(old.speedup) > 1:
        paused: dict[str, Any] = {"rescale_s_on": dict(old.rescale_s_on) | {gpu_type: measured.rescale_s.mean}}
    else:
        paused = {"rescale_s": measured.rescale_s.mean}
    renewed = old.replace(speedup=dict(old.speedup) | {gpu_type: measured.curve}, **paused)
    intervals = ", ".join(f"{w.gpus} GPUs {w.interval[0]:.4g} to {w.interval[1]:.4g}" for w in measured.widths[1:])
    noted = dict(base.source) | {f"profile.{name}": f"{source}; 95 % intervals: {intervals}"}
    return base.replace(classes=dict(base.classes) | {name: renewed}, source=noted)


def _drop_missing(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def read_profile(path: Path | str) -> JobProfile:
    """Read a profile that ``optplan measure network`` or :func:`~optplan.instances.files.write_json` wrote.

    Raises
    ------
    DataError
        When the file cannot be read or is no profile.
    """
    path = Path(path)
    return JobProfile.parse(read_data(path), path=path.name)


def merge_profiles(profiles: Sequence[JobProfile]) -> JobProfile:
    """Join profiles of one network that were measured on several kinds of GPU.

    All ranks exchange gradients in one order, that of the first profile. On the other devices a layer is therefore
    ready when it and all layers before it in that order are.

    Parameters
    ----------
    profiles
        With the same layers, and no device twice.

    Returns
    -------
    JobProfile
        The network's name and the order of its layers are those of the first; where probabilities were sampled, the
        mean of all profiles' counts.

    Raises
    ------
    DataError
        When there is none, layers differ, or a device is in two of them.
    """
    if not profiles:
        raise DataError("profiles", "is empty", "give at least one")
    first = profiles[0]
    devices = {}
    orders = [_match_layers(first.layers, each.layers, f"profiles[{index}]") for index, each in enumerate(profiles)]
    for index, (profile, order) in enumerate(zip(profiles, orders, strict=True)):
        for gpu, device in profile.devices.items():
            if gpu in devices:
                problem = f"has {gpu!r}, which an earlier profile has, too"
                raise DataError(f"profiles[{index}].devices", problem, "give each kind of GPU its own name")
            ready = np.maximum.accumulate(profile.ready_on(gpu)[order])
            devices[gpu] = device.replace(ready=None if np.array_equal(ready, first.layers.ready) else ready)
    sources = dict.fromkeys(profile.source for profile in profiles if profile.source)
    return first.replace(
        layers=first.layers.replace(probability=_mean_probability(profiles, orders)),
        devices=devices,
        source="; ".join(sources),
    )


def _match_layers(wanted: Layers, given: Layers, path: str) -> list[int]:
    """Return where each wanted layer is among the given ones."""
    count = wanted.gradient_bytes.size
    if given.gradient_bytes.size != count:
        problem = f"has {given.gradient_bytes.size} layers, the first profile {count}"
        raise DataError(f"{path}.layers", problem, "merge profiles of one network only")
    if wanted.names is None or given.names is None:
        order = list(range(count))
    elif set(wanted.names) == set(given.names):
        places = {name: place for place, name in enumerate(given.names)}
        order = [places[name] for name in wanted.names]
    else:
        other = next(name for name in given.names if name not in set(wanted.names))
        raise DataError(
            f"{path}.layers.names",
            f"has {other!r}, which the first profile has not",
            "merge profiles of one network only",
        )
    differing = np.flatnonzero(wanted.gradient_bytes != given.gradient_bytes[order])
    if differing.size:
        place = int(differing[0])
        name = wanted.names[place] if wanted.names else f"[{place}]"
        problem = (
            f"layer {name}: {given.gradient_bytes[order[place]]:.0f} bytes, "
            f"{wanted.gradient_bytes[place]:.0f} in the first profile"
        )
        raise DataError(f"{path}.layers.gradient_bytes", problem, "merge profiles of one network only")
    return order


def _mean_probability(profiles: Sequence[JobProfile], orders: Sequence[Sequence[int]]) -> FloatArray | None:
    if all(profile.layers.probability is None for profile in profiles):
        return None
    always = np.ones(profiles[0].layers.gradient_bytes.size)
    sampled = [
        always if profile.layers.probability is None else profile.layers.probability[list(order)]
        for profile, order in zip(profiles, orders, strict=True)
    ]
    return np.asarray(np.mean(sampled, axis=0), dtype=np.float64)
