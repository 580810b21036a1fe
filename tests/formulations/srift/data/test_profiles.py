from __future__ import annotations

import re
from typing import Any

import pytest

from optplan.errors import DataError
from optplan.formulations.srift.data.profiles import DeviceProfile, JobProfile, Layers


def _device(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of any kind
    return {
        "batches": [1, 10, 20, 30],
        "forward_s": [0.1, 0.2, 0.3, 0.5],
        "backward_s": [0.2, 0.4, 0.6, 1.0],
        **changes,
    }


def test_times_are_linear_between_measured_batches() -> None:
    """Halfway from 10 to 20 samples the forward pass takes 0.25 s, and 0.4 s halfway from 20 to 30."""
    device = DeviceProfile.parse(_device())
    assert [device.forward_after(batch) for batch in (1, 15, 25, 30)] == pytest.approx([0.1, 0.25, 0.4, 0.5], rel=1e-12)
    assert device.backward_after(15) == pytest.approx(0.5, rel=1e-12)
    assert device.largest_batch == 30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": [0, 10, 20, 30]}, "batches: got [0, 10, 20, 30]; whole numbers from 1 on, ascending, are needed"),
        ({"batches": [1, 10, 10, 30]}, "the last one is the largest batch that fits on a device"),
        ({"batches": [0]}, "batches: got [0]; whole numbers from 1 on"),
        ({"batches": []}, "batches: got []"),
        ({"forward_s": [0.1, 0.2]}, "forward_s: 2 values for 4 batches; give one for each"),
        (
            {"backward_s": [0.2, 0.4, 0.3, 1.0]},
            "backward_s: falls from 0.4 to 0.3 s between batches 10 and 20; a larger batch takes no less time",
        ),
        ({"forward_s": [0.0, 0.2, 0.3, 0.5]}, "forward_s: entry [0]: got 0.0; numbers above zero are allowed"),
        ({"deviation": 1.0}, "deviation: got 1.0; input should be less than 1"),
        ({"ready": [0.5, 1.2]}, "ready: entry [1]: got 1.2; shares from 0 to 1 are allowed"),
        ({"ready": [0.5, 0.2]}, "ready: entry [1] is 0.2, less than 0.5 before it; sort the layers by when"),
    ],
)
def test_wrong_device_profiles(changes: dict[str, Any], message: str) -> None:
    """Each mistake is named with the field, the value and what to do."""
    with pytest.raises(DataError, match=re.escape(message)):
        DeviceProfile.parse(_device(**changes))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gradient_bytes": [], "ready": []}, "gradient_bytes: is empty; list the bytes of each layer's gradient"),
        ({"gradient_bytes": [4.0, 0.0], "ready": [0, 1]}, "gradient_bytes: entry [1]: got 0.0; numbers above zero"),
        ({"gradient_bytes": [4.0], "ready": [0, 1]}, "ready: 2 entries for 1 layers; give one for each"),
        ({"gradient_bytes": [4.0], "ready": [1], "names": ["a", "b"]}, "names: 2 entries for 1 layers"),
        (
            {"gradient_bytes": [4.0, 8.0], "ready": [0.9, 0.1]},
            "ready: entry [1] is 0.1, less than 0.9 before it; sort the layers by when their gradients are ready",
        ),
        ({"gradient_bytes": [4.0], "ready": [1], "probability": [1.5]}, "probability: entry [0]: got 1.5; shares from"),
    ],
)
def test_wrong_layers(fields: dict[str, Any], message: str) -> None:
    """Layers without a size, without a place in the backward pass or out of order are refused."""
    with pytest.raises(DataError, match=re.escape(message)):
        Layers.parse(fields)


def test_job_needs_a_device_that_fits_its_layers() -> None:
    """A job without devices, and a device with readiness of other layers, are refused."""
    layers = {"gradient_bytes": [4.0], "ready": [1.0]}
    with pytest.raises(DataError, match=re.escape("devices: is empty; give the profile of at least one kind of GPU")):
        JobProfile.parse({"layers": layers, "devices": {}})
    with pytest.raises(DataError, match=re.escape("devices.t4.ready: 2 entries for 1 layers; give one for each")):
        JobProfile.parse({"layers": layers, "devices": {"t4": _device(ready=[0.5, 1.0])}})


def test_devices_may_have_their_own_readiness() -> None:
    """Where a device says when its gradients are ready, that holds; otherwise the layers' word."""
    layers = {"gradient_bytes": [4.0, 4.0], "ready": [0.5, 1.0]}
    job = JobProfile.parse({"layers": layers, "devices": {"t4": _device(), "v100": _device(ready=[0.1, 0.9])}})
    assert job.ready_on("t4").tolist() == [0.5, 1.0]
    assert job.ready_on("v100").tolist() == [0.1, 0.9]
