"""Ranks of a PyTorch process group on the machine at hand: started together, watched, and ended by their own ids."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from optplan.errors import MeasurementError, UsageError
from optplan.profiling.workloads import require_torch

if TYPE_CHECKING:
    from torch.multiprocessing.spawn import ProcessContext

GLOO, NCCL = "gloo", "nccl"
_LOOPBACK = "127.0.0.1"
#: Where the first rank leaves what it returns.
_ANSWER = "answer"
#: Seconds that a rank gets to end after it was asked to.
_GRACE_S = 5.0
#: What a rank does: it gets arguments and returns plain data.
Work = Callable[..., Any]


def run_ranks(
    work: Work,
    ranks: int,
    arguments: tuple[object, ...] = (),
    *,
    backend: str = GLOO,
    timeout_s: float = 120.0,
) -> Any:  # noqa: ANN401 - plain data
    """Run a module's function on several ranks of this machine, spawned; return what rank 0 does within the timeout."""
    check_backend(backend, ranks)
    from torch.distributed import TCPStore
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, start_processes

    # Port 0: the system chooses a free one, which is this store's from that moment on.
    store = TCPStore(_LOOPBACK, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    inputs = (ranks, (backend, store.port, timeout_s), work, arguments)
    context = start_processes(_run_rank, inputs, nprocs=ranks, join=False, daemon=True, start_method="spawn")
    try:
        _wait(context, timeout_s)
    except ProcessRaisedException as error:
        last = str(error).strip().splitlines()[-1]
        raise MeasurementError(f"rank {error.error_index} of {ranks} failed: {last}") from error
    except ProcessExitedException as error:
        raise MeasurementError(f"rank {error.error_index} of {ranks} ended by itself: {error}") from error
    finally:
        _end(context)
    return json.loads(store.get(_ANSWER))


def check_backend(backend: str, ranks: int) -> None:
    """Raise when a backend cannot serve so many ranks here."""
    torch = require_torch()
    if ranks < 1:
        raise UsageError(f"ranks: got {ranks}; whole numbers from 1 on are allowed")
    present = _list_backends()
    if backend not in present:
        message = f"backend: got {backend!r}; usable with this PyTorch and machine: {', '.join(present) or 'none'}"
        raise UsageError(message)
    if backend == NCCL and ranks > torch.cuda.device_count():
        message = f"ranks: got {ranks} with nccl, and there are {torch.cuda.device_count()} CUDA devices here"
        raise UsageError(f"{message}; take fewer, or several machines with torchrun")


def choose_backend(ranks: int) -> str:
    """Return nccl where it can serve so many ranks on this machine, else gloo."""
    return NCCL if NCCL in _list_backends() and ranks <= require_torch().cuda.device_count() else GLOO


def _list_backends() -> list[str]:
    torch = require_torch()
    import torch.distributed as group

    if not group.is_available():
        return []
    present = {
        GLOO: group.is_gloo_available(),
        NCCL: group.is_nccl_available() and torch.cuda.is_available(),
    }
    return [name for name, found in present.items() if found]


@contextmanager
def joined_group(backend: str, place: int, **settings: Any) -> Iterator[None]:  # noqa: ANN401 - PyTorch's own
    """Be in the default process group meanwhile; with ``nccl`` the place is the number of the CUDA device."""
    torch = require_torch()
    import torch.distributed as group

    if backend == NCCL:
        torch.cuda.set_device(place)
    group.init_process_group(backend, **settings)
    try:
        yield
    finally:
        group.destroy_process_group()


def _run_rank(rank: int, ranks: int, setting: tuple[str, int, float], work: Work, arguments: tuple[Any, ...]) -> None:
    """Join the group, do the work; rank 0 leaves its answer in the store."""
    backend, port, timeout_s = setting
    torch = require_torch()
    from torch.distributed import TCPStore

    torch.set_num_threads(1)
    # The loopback interface, as systems call it: lo, lo0.
    os.environ["GLOO_SOCKET_IFNAME"] = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    timeout = timedelta(seconds=timeout_s)
    store = TCPStore(_LOOPBACK, port, is_master=False, timeout=timeout)
    with joined_group(backend, rank, store=store, rank=rank, world_size=ranks, timeout=timeout):
        found = work(*arguments)
    if rank == 0:
        store.set(_ANSWER, json.dumps(found))


def _wait(context: ProcessContext, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while not context.join(timeout=max(0.0, end - time.monotonic())):
        if time.monotonic() >= end:
            message = f"no answer from {len(context.processes)} ranks within {timeout_s:g} s; they were ended"
            raise MeasurementError(f"{message}; give more time, or smaller sizes")


def _end(context: ProcessContext) -> None:
    """End the processes that still run."""
    for process in context.processes:
        if process.is_alive():
            process.terminate()
    for process in context.processes:
        process.join(_GRACE_S)
        if process.is_alive():
            process.kill()
            process.join()
