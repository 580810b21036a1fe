from __future__ import annotations

import itertools
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optplan.errors import DataError, DataWarning, MeasurementError, UsageError
from optplan.instances.files import write_json
from optplan.profiling.profiled_instances import read_profile
from optplan.profiling.torch_profiler import ProfilerSettings, profile_module
from optplan.profiling.workloads import HostClock, Workload, list_layers, make_clock
from tests.conftest import Later

if TYPE_CHECKING:
    import torch
    from torch import nn

    from tests.plugins import networks
else:
    networks, nn, torch = map(Later, ("networks", "torch.nn", "torch"))

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="the extra torch is not installed")


def counting(**changes: int | bool) -> ProfilerSettings:
    """Return settings with a clock that moves on by one each time it is read: what is measured is the order."""
    ticks = itertools.count()
    settings = ProfilerSettings(repetitions=3, warm_up=0, samples=3, clock=HostClock(lambda: float(next(ticks))))
    return replace(settings, **changes)  # type: ignore[arg-type]


def linear_chain(*widths: int) -> nn.Sequential:
    """Make linear layers, one after the other, with rectifiers between them."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for first, second in itertools.pairwise(widths):
        layers += [nn.Linear(first, second), nn.ReLU()]
    return nn.Sequential(*layers)


def test_times_are_those_at_the_four_batches_of_the_paper_and_two_small_ones() -> None:
    """Passes of known time are measured exactly: at 1, a third, two thirds and all of 12, and at its cube roots."""
    time = networks.VirtualTime()
    module = networks.Timed(time, lambda batch: 0.5 + 0.25 * batch, [0.25, 0.5])
    profile = profile_module(module, torch.ones(1, 2), largest_batch=12, gpu="t4", settings=time.settings())
    device = profile.devices["t4"]
    np.testing.assert_array_equal(device.batches, [1, 2, 4, 5, 8, 12])  # 12 ** (1 / 3) is 2.3, its square 5.2
    np.testing.assert_allclose(device.forward_s, [0.75, 1.0, 1.5, 1.75, 2.5, 3.5])
    np.testing.assert_allclose(device.backward_s, [0.75] * 6)
    assert device.deviation == 0
    assert profile.network == "Timed"
    assert "medians of 11 passes" in profile.source


def test_ready_times_are_shares_of_the_backward_pass() -> None:
    """Layers that take 1, 2 and 5 s in a backward pass are ready after 5/8, 7/8 and all of it, the last one first."""
    time = networks.VirtualTime()
    module = networks.Timed(time, lambda batch: 0.1 * batch, [1.0, 2.0, 5.0])
    profile = profile_module(module, torch.ones(1, 2), largest_batch=4, settings=time.settings())
    assert profile.layers.names == ("chain.2", "chain.1", "chain.0")
    np.testing.assert_allclose(profile.layers.ready, [5 / 8, 7 / 8, 1.0])


def test_the_deviation_is_that_of_the_bulk_of_the_passes() -> None:
    """Passes of 9, 10, 10, 11 s and one of 50 s deviate by 1.4826 * 1 s from their median of 10 s."""
    time = networks.VirtualTime()
    seconds = itertools.cycle([8.0, 9.0, 9.0, 10.0, 49.0])
    module = networks.Timed(time, lambda batch: next(seconds) if batch == 2 else 1.0, [1.0])
    settings = time.settings(repetitions=5, warm_up=0, least_batch=2)
    profile = profile_module(module, torch.ones(1, 2), largest_batch=2, settings=settings)
    device = profile.devices["cpu"]
    np.testing.assert_array_equal(device.batches, [2])
    assert device.deviation == pytest.approx(1.482602 / 10, rel=1e-5)


def test_a_chain_is_ready_from_its_end_to_its_beginning() -> None:
    """Gradients become ready in the reverse order of the layers, at shares that rise to at most 1."""
    profile = profile_module(linear_chain(8, 16, 32, 4), torch.ones(1, 8), largest_batch=4, settings=counting())
    assert profile.layers.names == ("4", "2", "0")
    # The clock is read at the start, by the two parameters of each layer, and at the end: 7 steps.
    np.testing.assert_allclose(profile.layers.ready, [2 / 7, 4 / 7, 6 / 7])
    assert profile.layers.probability is None
    # Weights and biases, 4 bytes each: 32 * 4 + 4, 16 * 32 + 32 and 8 * 16 + 16 of them.
    np.testing.assert_array_equal(profile.layers.gradient_bytes, [528, 2176, 576])


def test_gradient_bytes_are_those_of_the_trainable_parameters() -> None:
    """Frozen layers exchange nothing, and half precision is half as large."""
    module = linear_chain(8, 16, 32, 4).to(torch.bfloat16)
    for parameter in module[2].parameters():
        parameter.requires_grad_(False)
    profile = profile_module(module, torch.ones(1, 8, dtype=torch.bfloat16), largest_batch=2, settings=counting())
    assert profile.layers.names == ("4", "0")
    np.testing.assert_array_equal(profile.layers.gradient_bytes, [264, 288])


def test_shared_parameters_are_exchanged_once() -> None:
    """A parameter of two layers belongs to the first of them, and is ready when both have used it."""
    module = linear_chain(4, 4, 4)
    module[2].weight = module[0].weight  # type: ignore[assignment,unused-ignore]
    assert [(layer.name, layer.gradient_bytes) for layer in list_layers(module)] == [("0", 80), ("2", 16)]
    profile = profile_module(module, torch.ones(1, 4), largest_batch=2, settings=counting())
    assert profile.layers.names == ("2", "0")


def test_layers_that_run_sometimes_have_a_probability() -> None:
    """A layer that the sampled batches reach in 3 of 4 cases has the probability 3/4, the other one 1."""
    batches = itertools.cycle([torch.ones(2, 2), torch.ones(2, 2), -torch.ones(2, 2), torch.ones(2, 2)])
    profile = profile_module(
        networks.Branched(),
        torch.ones(1, 2),
        largest_batch=4,
        sampler=lambda: next(batches),
        settings=counting(samples=8),
    )
    assert profile.layers.names == ("sometimes", "always")
    assert profile.layers.probability is not None
    np.testing.assert_array_equal(profile.layers.probability, [0.75, 1.0])


def test_a_layer_that_never_runs_is_named() -> None:
    """What gets no gradient at all is no layer to be exchanged, and has to be frozen or reached."""
    message = r"module\.sometimes: gets no gradient in any of 3 backward passes; freeze it with requires_grad_"
    with pytest.raises(DataError, match=message):
        profile_module(networks.Branched(), -torch.ones(1, 2), largest_batch=2, settings=counting())


@pytest.mark.parametrize(("memory", "cap", "found"), [(21, 1000, 21), (21, 16, 16), (1, 1000, 1)])
def test_the_largest_batch_is_what_fits_into_memory_or_the_cap(memory: int, cap: int, found: int) -> None:
    """The search ends at the last batch before memory runs out, or at the given cap, whichever is less."""
    module = networks.Limited(memory)
    profile = profile_module(module, torch.ones(1, 2), largest_batch=cap, settings=counting())
    assert profile.devices["cpu"].largest_batch == found
    assert max(module.asked) <= cap


def test_a_gpu_needs_no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is what limits a batch, doubling and then halving the interval find it."""
    monkeypatch.setattr(Workload, "moved", lambda self, _: self)  # a GPU that behaves like the CPU
    module = networks.Limited(21)
    profile = profile_module(module, torch.ones(1, 2), device="cuda", gpu="t4", settings=counting())
    assert profile.devices["t4"].largest_batch == 21
    assert module.asked[:10] == [1, 2, 4, 8, 16, 32, 24, 20, 22, 21]


def test_memory_that_no_longer_holds_the_largest_batch_makes_it_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 48 samples that fitted once, 48 - 3 - 2 - 2 are what fits when batches of other sizes have been there."""
    monkeypatch.setattr(Workload, "moved", lambda self, _: self)
    module = networks.Limited(48)
    found: list[int] = []
    forward = module.forward

    def shrink(inputs: torch.Tensor) -> Any:  # noqa: ANN401 - what the network returns
        found.append(len(inputs))
        module.most = 42 if found.count(48) > 1 else 48
        return forward(inputs)

    monkeypatch.setattr(module, "forward", shrink)
    profile = profile_module(module, torch.ones(1, 2), device="cuda", gpu="t4", settings=counting())
    assert profile.devices["t4"].largest_batch == 41  # 48 - 3 = 45, - 2 = 43, - 2 = 41


def test_a_gpu_is_measured_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its memory is not allocated anew at every pass; each batch is warmed up by itself."""
    monkeypatch.setattr(Workload, "moved", lambda self, _: self)
    module = networks.Limited(4)
    settings = counting(warm_up=1)
    profile_module(module, torch.ones(1, 2), largest_batch=4, device="cuda", gpu="t4", settings=settings)
    assert module.asked[2:] == [*[1] * 4, *[2] * 4, *[3] * 4, *[4] * 4, *[4] * 3]  # 1 and 4 were tried; 3 are watched


def test_falls_within_what_passes_scatter_are_levelled_and_said() -> None:
    """Of a GPU that takes as long for 2 samples as for 1, medians of 10 and 9.5 s, scattered by 1 s, are both 9.75."""
    time = networks.VirtualTime()
    taken = {1: itertools.cycle([9.0, 10.0, 11.0]), 2: itertools.cycle([8.5, 9.5, 10.5])}
    module = networks.Timed(time, lambda batch: next(taken[batch]) if batch in taken else 20.0, [1.0])
    profile = profile_module(
        module, torch.ones(1, 2), largest_batch=8, settings=time.settings(repetitions=9, warm_up=0)
    )
    np.testing.assert_allclose(profile.devices["cpu"].forward_s[:2], [9.75, 9.75])
    assert "falls levelled" in profile.source


def test_nothing_fits() -> None:
    """A device without memory for one sample is named."""
    message = "module: a batch of 1 does not fit into the memory of cpu; take a device with more memory"
    with pytest.raises(DataError, match=message):
        profile_module(networks.Limited(0), torch.ones(1, 2), largest_batch=8, settings=counting())


def test_times_that_fall_are_measured_again_and_then_refused() -> None:
    """A larger batch that takes less time is not accepted, however often it is measured."""
    time = networks.VirtualTime()
    module = networks.Timed(time, lambda batch: 2.0 if batch == 4 else 1.0, [1.0])
    message = r"forward pass: the median falls from 2 s at a batch of 4 to 1 s at 6; measure on an idle machine"
    with pytest.raises(MeasurementError, match=message):
        profile_module(module, torch.ones(1, 2), largest_batch=9, settings=time.settings())


def test_a_slow_moment_is_overcome_by_measuring_again() -> None:
    """Times that fell in the first round only do not fall after the second."""
    time = networks.VirtualTime()
    slow = iter([5.0, 5.0])
    module = networks.Timed(time, lambda batch: next(slow, 1.0) if batch == 4 else 1.0 + 0.1 * (batch > 4), [1.0])
    settings = time.settings(repetitions=3, warm_up=0)
    profile = profile_module(module, torch.ones(1, 2), largest_batch=9, settings=settings)
    np.testing.assert_allclose(profile.devices["cpu"].forward_s, [1.0, 1.0, 1.0, 1.0, 1.1, 1.1])  # 1, 2, 3, 4, 6, 9


def test_falling_times_are_levelled_on_request_and_it_is_said() -> None:
    """Isotonic regression takes the mean of 2 s and 1 s, with a warning."""
    time = networks.VirtualTime()
    module = networks.Timed(time, lambda batch: {1: 0.5, 2: 0.5, 3: 0.5, 4: 2.0, 6: 1.0, 9: 3.0}[batch], [1.0])
    with pytest.warns(DataWarning, match="falls from 2 s at a batch of 4 to 1 s at 6; levelled by isotonic regression"):
        profile = profile_module(module, torch.ones(1, 2), largest_batch=9, settings=time.settings(mend_falls=True))
    np.testing.assert_allclose(profile.devices["cpu"].forward_s, [0.5, 0.5, 0.5, 1.5, 1.5, 3.0])
    assert "medians of 11 passes, falls levelled" in profile.source


def test_a_backward_pass_without_time_is_refused() -> None:
    """Shares of no time cannot be told."""
    time = networks.VirtualTime()
    module = networks.Timed(time, lambda _: 1.0, [0.0])
    with pytest.raises(MeasurementError, match="a pass took no time that the clock can tell"):
        profile_module(module, torch.ones(1, 2), largest_batch=2, settings=time.settings())


def test_the_users_module_stays_as_it_is() -> None:
    """A copy is measured: no gradients, no hooks and no running statistics are left behind."""
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    profile_module(module, torch.randn(4, 2), largest_batch=4, settings=counting(least_batch=2))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_network_that_needs_two_samples_is_told_so() -> None:
    """The failure of the user's own code is quoted, with what to try."""
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    message = r"module: fails on a batch of 1: ValueError: Expected more than 1 value per channel.*least_batch=2"
    with pytest.raises(DataError, match=message):
        profile_module(module, torch.ones(1, 2), largest_batch=4, settings=counting())


def test_sparse_gradients_are_refused() -> None:
    """An all-reduce exchanges dense gradients; what is sparse is named."""
    module = nn.Embedding(10, 4, sparse=True)
    message = r"module\.Embedding: has a sparse gradient, .* make it dense, as with sparse=False"
    with pytest.raises(DataError, match=message):
        profile_module(module, torch.zeros(2, dtype=torch.int64), largest_batch=2, settings=counting())


def test_a_frozen_network_has_nothing_to_exchange() -> None:
    """A network without trainable parameters is refused."""
    module = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(DataError, match="module: Linear has no parameter that requires a gradient"):
        profile_module(module, torch.ones(1, 2), largest_batch=2, settings=counting())


@pytest.mark.parametrize(
    ("device", "largest_batch", "message"),
    [
        ("cpu", None, "largest_batch: is needed on a CPU"),
        ("cpu", 0, "largest_batch: got 0, less than the smallest batch to measure, 1"),
        ("tpu", 8, "device: got 'tpu'; cpu, cuda and cuda:N can be measured"),
    ],
)
def test_wrong_calls_are_explained(device: str, largest_batch: int | None, message: str) -> None:
    """Device and largest batch are checked before anything runs."""
    with pytest.raises(UsageError, match=message):
        profile_module(nn.Linear(2, 2), torch.ones(1, 2), device=device, largest_batch=largest_batch)


@pytest.mark.parametrize("name", ["repetitions", "warm_up", "attempts", "samples", "least_batch"])
def test_settings_that_measure_nothing_are_refused(name: str) -> None:
    """Each number has a least value."""
    with pytest.raises(UsageError, match=f"{name}: got -1; whole numbers from [0-9] on are allowed"):
        ProfilerSettings(**{name: -1})  # type: ignore[arg-type]


def test_threads_are_set_while_measuring_only() -> None:
    """The profile says how many there were, and afterwards PyTorch has its own number again."""
    before = torch.get_num_threads()
    profile = profile_module(nn.Linear(2, 2), torch.ones(1, 2), largest_batch=2, settings=counting(threads=1))
    assert "on cpu (1 of its threads)" in profile.source
    assert torch.get_num_threads() == before
    with pytest.raises(UsageError, match="threads: got 0; whole numbers from 1 to 1,024 are allowed, or none"):
        ProfilerSettings(threads=0)


def test_a_missing_gpu_is_said() -> None:
    """Asking for CUDA where there is none names the way out."""
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(UsageError, match="device: got 'cuda', but PyTorch finds no CUDA device here; use cpu"):
        make_clock("cuda")


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")  # times may fall while other tests run
def test_a_real_network_is_profiled_and_its_profile_read_back(tmp_path: Path) -> None:
    """By the processor's time everything is positive and ordered, and the file holds the same profile."""
    clock = HostClock(time.process_time)  # which other processes on the machine do not scatter
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16 * 16, 10))
    settings = ProfilerSettings(repetitions=3, samples=3, threads=1, mend_falls=True, clock=clock)
    profile = profile_module(module, torch.randn(2, 3, 16, 16), largest_batch=16, settings=settings)
    device = profile.devices["cpu"]
    np.testing.assert_array_equal(device.batches, [1, 3, 5, 6, 11, 16])
    assert (device.forward_s > 0).all()
    assert (np.diff(device.backward_s) >= 0).all()
    assert profile.layers.names == ("3", "0")
    path = tmp_path / "profile.json"
    write_json(profile, path)
    assert read_profile(path).to_json_data() == profile.to_json_data()
