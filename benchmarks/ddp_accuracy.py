"""How well Srift's model predicts real training here: PyTorch's DistributedDataParallel against profile and prober.

All ranks share this machine, so each of the three steps (profiling, probing, training) runs in all of them at the same
time: what one rank costs the other is in every measurement, the profile's included.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optplan.errors import UsageError
from optplan.formulations.srift.data.bandwidth import BandwidthTable, MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup, VmType
from optplan.formulations.srift.data.profiles import JobProfile
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.profiling.allreduce_data import Place
from optplan.profiling.allreduce_prober import GLOO, NCCL, ProbeSettings, collect, measure_all, run_ranks
from optplan.profiling.bandwidth_training import tabulate
from optplan.profiling.torch_profiler import ProfilerSettings, profile_module
from optplan.profiling.workloads import Workload, call_module, load_workload, make_clock
from optplan.schema import FrozenModel

_HERE = "here"
_MEBIBYTE = 2**20
#: Iterations before those that count: DistributedDataParallel fills its buckets anew after the first one.
_WARM_UP = 3
#: Timed passes of the profile; more of them would take longer, and be further away in time from what they predict.
_REPETITIONS = 15


class PredictedIteration(FrozenModel):
    """An iteration at one batch, measured and predicted."""

    batch: int  #: Samples per rank.
    measured_s: float  #: Median of the iterations, as the profile is made of medians.
    predicted_s: float  #: With the buckets in which gradients were exchanged.
    predicted_layerwise_s: float  #: Each layer by itself, as the paper assumes.
    #: compute_s, exchange_s: What the first prediction is made of: both passes, and the exchange from the beginning of
    #: the backward pass.
    compute_s: float
    exchange_s: float


class Accuracy(FrozenModel):
    """Iterations, measured and predicted."""

    network: str  #: Its name.
    ranks: int  #: Processes.
    iterations: int  #: Measured at each batch.
    bucket_bytes: int  #: In which gradients were exchanged.
    rows: tuple[PredictedIteration, ...]  #: By batch.
    #: mape, mape_layerwise: Mean absolute error over the measured time, with buckets and layer by layer.
    mape: float
    mape_layerwise: float
    #: profile, bandwidth: What the predictions rest on.
    profile: JobProfile
    bandwidth: BandwidthTable


def check_accuracy(
    target: str,
    batches: Sequence[int],
    *,
    ranks: int = 2,
    iterations: int = 50,
    bucket_mib: int = 1,
    timeout_s: float = 600.0,
    backend: str = GLOO,
) -> Accuracy:
    """Train a network on several processes of this machine, and predict what an iteration takes.

    Parameters
    ----------
    target
        Function that makes the network, as :func:`~optplan.profiling.workloads.load_workload` takes it.
    batches
        Samples per rank to try; the largest is where the profile ends.
    ranks
        Processes, 2 or more.
    iterations
        At each batch. An iteration is a forward and a backward pass with the exchange of gradients; no optimiser.
    bucket_mib
        Size in MiB from which a bucket of gradients is exchanged.
    timeout_s
        For everything.
    backend
        ``gloo``, or ``nccl`` with a CUDA device for each rank.

    Returns
    -------
    Accuracy
        With one row for each batch.

    Raises
    ------
    UsageError
        When no batch is given, or fewer than two ranks.
    MeasurementError
        When a rank fails, or time is up.
    """
    if ranks < 2 or not batches or min(batches) < 1 or iterations < 1 or bucket_mib < 1:
        raise UsageError(
            f"got ranks {ranks}, batches {list(batches)}, iterations {iterations}, bucket_mib {bucket_mib}; two ranks "
            "or more, a batch or more and whole numbers from 1 on are needed"
        )
    wanted = sorted(set(batches))
    setting = (target, wanted, iterations, bucket_mib, backend == NCCL)
    return predict_all(
        run_ranks(measure_here, ranks, setting, backend=backend, timeout_s=timeout_s), ranks, wanted, bucket_mib
    )


def predict_all(found: Mapping[str, Any], ranks: int, batches: Sequence[int], bucket_mib: int) -> Accuracy:
    """Predict what the ranks measured, at these batches."""
    profile = JobProfile.parse(found["profile"])
    probed = tabulate(collect(found["timings"], Place(_HERE)))
    rows = tuple(
        _predict(profile, probed, ranks, batch, statistics.median(measured), bucket_mib * _MEBIBYTE)
        for batch, measured in zip(batches, found["iterations"], strict=True)
    )
    return Accuracy(
        network=profile.network,
        ranks=ranks,
        iterations=len(found["iterations"][0]),
        bucket_bytes=bucket_mib * _MEBIBYTE,
        rows=rows,
        mape=statistics.fmean(abs(row.predicted_s / row.measured_s - 1) for row in rows),
        mape_layerwise=statistics.fmean(abs(row.predicted_layerwise_s / row.measured_s - 1) for row in rows),
        profile=profile,
        bandwidth=probed.tables[_HERE],
    )


def measure_here(target: str, batches: list[int], iterations: int, bucket_mib: int, on_gpu: bool) -> dict[str, Any]:  # noqa: FBT001
    """Profile, probe and train, on every rank; rank 0's figures count, but for the slowest rank's of the probe."""
    import torch.distributed as group

    device = f"cuda:{group.get_rank()}" if on_gpu else "cpu"
    workload = load_workload(target).moved(device)

    def make_in_step(batch: int) -> Any:  # noqa: ANN401 - inputs of any structure
        """Make inputs, and wait for the other ranks: passes begin together, as in training."""
        inputs = workload.make_batch(batch)
        group.barrier()
        return inputs

    # One attempt: every rank has to run as many passes as the others.
    settings = ProfilerSettings(repetitions=_REPETITIONS, attempts=1, mend_falls=True)
    profile = profile_module(
        workload.module,
        make_in_step,
        loss=workload.loss,
        device=device,
        largest_batch=batches[-1],
        settings=settings,
    )
    # The powers of two around all layers and all buckets, of which one may hold the largest layer and more.
    least, most = (int(size) for size in (profile.layers.gradient_bytes.min(), profile.layers.gradient_bytes.max()))
    largest = 2 ** (most + bucket_mib * _MEBIBYTE - 1).bit_length()
    ends = {"least_bytes": 2 ** (least.bit_length() - 1), "most_bytes": largest}
    timings = measure_all(ProbeSettings(ranks=(group.get_world_size(),), **ends))
    return {
        "profile": profile.to_json_data(),
        "timings": timings,
        "iterations": _train(workload, batches, iterations, bucket_mib, device),
    }


def _train(workload: Workload, batches: list[int], iterations: int, bucket_mib: int, device: str) -> list[list[float]]:
    """Return the seconds of each iteration, by batch; the batches take turns, as in profiling."""
    import torch.distributed as group
    from torch.nn.parallel import DistributedDataParallel

    network = DistributedDataParallel(workload.module, bucket_cap_mb=bucket_mib)
    wait = make_clock(device).finish
    taken: list[list[float]] = [[] for _ in batches]
    for turn in range(_WARM_UP + iterations):
        for place, batch in enumerate(batches):
            inputs = workload.make_batch(batch)
            group.barrier()
            network.zero_grad(set_to_none=True)
            wait()
            start = time.perf_counter()
            workload.loss(call_module(network, inputs)).backward()
            wait()
            if turn >= _WARM_UP:
                taken[place].append(time.perf_counter() - start)
    return taken


def _predict(
    profile: JobProfile, probed: MeasuredBandwidth, ranks: int, batch: int, measured_s: float, bucket_bytes: int
) -> PredictedIteration:
    (gpu,) = profile.devices
    here = VmType(
        gpu=gpu,
        price_usd_per_hour=1.0,
        network_gbit_per_s=float(probed.tables[_HERE].bus_gbit_per_s.max()),
        available=ranks,
        batches=np.array([batch]),
    )
    instance = SriftInstance(
        name="accuracy",
        job=profile,
        global_batch=ranks * batch,
        iterations=1,
        types={_HERE: here},
        bandwidth=probed,
        bucket_bytes=bucket_bytes,
    )
    fleet = [VmGroup(type=_HERE, count=ranks, batch=batch)]
    bucketed = IterationModel(instance).predict(fleet)
    return PredictedIteration(
        batch=batch,
        measured_s=measured_s,
        predicted_s=bucketed.total_s,
        predicted_layerwise_s=IterationModel(instance.replace(bucket_bytes=None)).predict(fleet).total_s,
        compute_s=bucketed.forward_s + bucketed.backward_s,
        exchange_s=bucketed.exchange_s,
    )
