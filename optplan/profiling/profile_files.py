"""Profiles of training jobs as files, and several devices' profiles in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from optplan.errors import DataError
from optplan.formulations.srift.data.profiles import JobProfile, Layers
from optplan.instances.plain_data import read_data
from optplan.schema import FloatArray


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
