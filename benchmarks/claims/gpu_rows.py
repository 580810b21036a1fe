"""Srift's tables 5 and 6 on the GPUs of one machine: ``make bench-gpu``, in under ten minutes.

Table 6 needs one GPU, up to the largest batch that its memory holds. Table 5 trains with DistributedDataParallel over
NCCL on two GPUs and more, and sets what the profile and the probed exchange predict beside it; on one GPU it is left
out. Networks that PyTorch compiles for nothing are trained at once: nothing is downloaded.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from claims.compute_model import GPU, check_network
from claims.record import Scope

#: Seconds after which no further network is begun, and those of one prediction.
_LIMIT_S, _ONE_S = 420.0, 150.0
_REPEATS, _ITERATIONS = 5, 30
_BATCHES = (1, 16, 64)
_HERE = Path(__file__).resolve()


def measure_gpu(scope: Scope) -> dict[str, Any] | None:
    """Return errors of the compute model by network and of whole iterations by network and GPUs; None without a GPU."""
    if find_spec("torch") is None:
        return None
    import torch

    from claims.networks import NETWORKS

    if not torch.cuda.is_available():
        return None
    start = time.monotonic()
    pixels, largest = GPU
    names = list(NETWORKS)[:1] if scope.quick else list(NETWORKS)
    compute = {}
    for name in names:
        if time.monotonic() - start < _LIMIT_S:
            compute[name] = _check_compute(name, largest, pixels)
    whole: dict[str, Any] = {}
    for ranks in (2, 4, 8):
        for name in names if ranks <= torch.cuda.device_count() else ():
            if time.monotonic() - start < _LIMIT_S:
                whole.setdefault(str(ranks), {})[name] = _check_whole(name, ranks)
    device = torch.cuda.get_device_name(0)
    return {
        "device": device,
        "gpus": torch.cuda.device_count(),
        "torch": torch.__version__,
        "compute": compute,
        "whole": whole,
    }


def _check_compute(name: str, largest: int, pixels: int) -> dict[str, Any]:
    """Halve the largest batch until the GPU holds it."""
    import torch

    try:
        return {"largest": largest, **check_network(name, "cuda", largest, pixels, _REPEATS)}
    except torch.OutOfMemoryError:
        if largest == 1:
            raise
    torch.cuda.empty_cache()
    return _check_compute(name, largest // 2, pixels)


def _check_whole(name: str, ranks: int) -> list[dict[str, float]]:
    from ddp_accuracy import check_accuracy

    target = f"{_HERE.with_name('gpu_networks.py')}:{name.lower()}"
    found = check_accuracy(
        target, _BATCHES, ranks=ranks, iterations=_ITERATIONS, bucket_mib=25, timeout_s=_ONE_S, backend="nccl"
    )
    return [{"batch": row.batch, "measured_s": row.measured_s, "predicted_s": row.predicted_s} for row in found.rows]
