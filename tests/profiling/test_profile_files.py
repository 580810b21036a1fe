from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.formulations.srift.data.profiles import DeviceProfile, JobProfile, Layers
from optplan.instances.files import write_json
from optplan.profiling.profiled_instances import merge_profiles, read_profile


def make_profile(
    gpu: str,
    ready: list[float],
    *,
    names: tuple[str, ...] | None = ("c", "b", "a"),
    sizes: tuple[float, ...] = (4.0, 8.0, 16.0),
    probability: list[float] | None = None,
) -> JobProfile:
    """Make the profile of a network of three layers on one device."""
    return JobProfile(
        network="net",
        layers=Layers(
            gradient_bytes=np.array(sizes),
            ready=np.array(ready),
            probability=None if probability is None else np.array(probability),
            names=names,
        ),
        devices={
            gpu: DeviceProfile(
                batches=np.array([1, 8]), forward_s=np.array([0.1, 0.2]), backward_s=np.array([0.2, 0.4])
            )
        },
        source=f"measured on {gpu}",
    )


def test_profiles_of_two_devices_keep_their_own_ready_times() -> None:
    """The merged profile has both devices; layers stay in the order of the first."""
    merged = merge_profiles([make_profile("t4", [0.1, 0.5, 1.0]), make_profile("v100", [0.2, 0.4, 0.9])])
    assert list(merged.devices) == ["t4", "v100"]
    np.testing.assert_array_equal(merged.ready_on("t4"), [0.1, 0.5, 1.0])
    np.testing.assert_array_equal(merged.ready_on("v100"), [0.2, 0.4, 0.9])
    assert merged.devices["t4"].ready is None
    assert merged.source == "measured on t4; measured on v100"


def test_a_layer_waits_for_those_before_it_in_the_common_order() -> None:
    """Where a device finishes b before c, b is exchanged after c all the same: it is ready when c is."""
    other = make_profile("v100", [0.2, 0.4, 0.9], names=("b", "c", "a"), sizes=(8.0, 4.0, 16.0))
    merged = merge_profiles([make_profile("t4", [0.1, 0.5, 1.0]), other])
    assert merged.layers.names == ("c", "b", "a")
    np.testing.assert_array_equal(merged.ready_on("v100"), [0.4, 0.4, 0.9])


def test_probabilities_are_averaged() -> None:
    """A layer that ran in all batches on one device and in half of them on the other has the probability 3/4."""
    other = make_profile("v100", [0.2, 0.4, 0.9], probability=[1.0, 0.5, 1.0])
    merged = merge_profiles([make_profile("t4", [0.1, 0.5, 1.0]), other])
    assert merged.layers.probability is not None
    np.testing.assert_array_equal(merged.layers.probability, [1.0, 0.75, 1.0])


def test_layers_without_names_are_matched_by_their_place() -> None:
    """Equal sizes in the same order are the same layers."""
    first, second = (make_profile(gpu, [0.1, 0.5, 1.0], names=None) for gpu in ("t4", "v100"))
    assert list(merge_profiles([first, second]).devices) == ["t4", "v100"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (make_profile("t4", [0.1, 0.5, 1.0]), r"profiles\[1\]\.devices: has 't4', which an earlier profile has, too"),
        (
            make_profile("v100", [0.1, 0.5, 1.0], names=("c", "b", "x")),
            r"profiles\[1\]\.layers\.names: has 'x', which the first profile has not; merge profiles of one network",
        ),
        (
            make_profile("v100", [0.1, 0.5, 1.0], sizes=(4.0, 9.0, 16.0)),
            r"profiles\[1\]\.layers\.gradient_bytes: layer b: 9 bytes, 8 in the first profile",
        ),
        (
            make_profile("v100", [0.1, 0.5], names=("c", "b"), sizes=(4.0, 8.0)),
            r"profiles\[1\]\.layers: has 2 layers, the first profile 3",
        ),
    ],
)
def test_profiles_that_do_not_belong_together_are_refused(other: JobProfile, message: str) -> None:
    """Only profiles of one network, each of its own devices, can be merged."""
    with pytest.raises(DataError, match=message):
        merge_profiles([make_profile("t4", [0.1, 0.5, 1.0]), other])


def test_nothing_cannot_be_merged() -> None:
    """At least one profile is needed."""
    with pytest.raises(DataError, match="profiles: is empty; give at least one"):
        merge_profiles([])


def test_a_merged_profile_can_be_written_and_read(tmp_path: Path) -> None:
    """The file holds everything."""
    merged = merge_profiles([make_profile("t4", [0.1, 0.5, 1.0]), make_profile("v100", [0.2, 0.4, 0.9])])
    path = tmp_path / "profile.json"
    write_json(merged, path)
    assert read_profile(path).to_json_data() == merged.to_json_data()


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    """The message names the file and the field."""
    path = tmp_path / "profile.json"
    path.write_text('{"layers": {"gradient_bytes": [4], "ready": [2]}, "devices": {}}', encoding="utf-8")
    with pytest.raises(DataError, match=r"profile\.json: layers\.ready: entry \[0\]: got 2.0; shares from 0 to 1"):
        read_profile(path)
