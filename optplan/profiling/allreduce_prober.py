"""Measures real all-reduces with torch.distributed, over sizes, ranks and simultaneous transfers (4.2).

On one machine the ranks are processes that talk over the loopback interface (gloo) or between its GPUs (nccl). On
several machines torchrun starts the ranks, and each of them calls :func:`probe`.

Ranks of a PyTorch process group on the machine at hand: started together, watched, and ended by their own ids.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from optplan.errors import MeasurementError, UsageError
from optplan.profiling.allreduce_data import AllreduceData, Measurement, Place, bandwidth_of
from optplan.profiling.workloads import require_torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup
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


_BYTES_PER_NUMBER = 4
#: All-reduces of one timing, at most; small ones take too little time to be timed one by one.
_MOST_TURNS = 200


@dataclass(frozen=True)
class ProbeSettings:
    """What is measured, and how carefully."""

    ranks: Sequence[int] = (2,)  #: Numbers of ranks, 2 or more.
    #: least_bytes, most_bytes: Ends of the buffers' sizes: powers of two, from one number on, as the paper's grid has.
    least_bytes: int = _BYTES_PER_NUMBER
    most_bytes: int = 16 * 2**20
    transfers: Sequence[int] = (1,)  #: All-reduces that are started at once; the paper's model knows their number.
    repeats: int = 5  #: Timings of each point; each becomes a row.
    warm_up: int = 3  #: All-reduces before them.
    #: Seconds that a timing takes, more or less: short all-reduces are repeated within it and averaged.
    timing_s: float = 0.02

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        for name, allowed in {"ranks": 2, "transfers": 1}.items():
            values = getattr(self, name)
            if not values or len(set(values)) < len(values) or min(values) < allowed:
                raise UsageError(f"{name}: got {list(values)}; list whole numbers from {allowed} on, each once")
        if not self.sizes_bytes:
            ends = f"{max(self.least_bytes, _BYTES_PER_NUMBER)} to {self.most_bytes} bytes"
            raise UsageError(f"sizes: no power of two from {ends}; widen the range")
        if self.repeats < 1 or self.warm_up < 0 or self.timing_s < 0:
            raise UsageError(
                f"repeats {self.repeats}, warm_up {self.warm_up}, timing_s {self.timing_s}: at least one repeat and no "
                "negative numbers are needed"
            )

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Sizes of the buffers, ascending."""
        powers = (2**power for power in range(2, self.most_bytes.bit_length()))
        return tuple(size for size in powers if size >= self.least_bytes)


def probe(
    settings: ProbeSettings, place: Place, *, backend: str | None = None, timeout_s: float = 600.0
) -> AllreduceData | None:
    """Measure all-reduces between processes of this machine, or between the ranks that torchrun started.

    Each of these has to call this with the same settings; of fewer ranks than were started the first ones take part.

    Parameters
    ----------
    settings
        What is measured.
    place
        This machine, or the first rank's, as :func:`describe_place` describes it.
    backend
        ``gloo``, on one machine over the loopback interface, or ``nccl`` between GPUs; None: nccl where each of this
        machine's ranks can have one.
    timeout_s
        For the whole measurement; for each all-reduce where torchrun started the ranks.

    Returns
    -------
    AllreduceData or None
        By ranks, transfers, sizes and repeats; None on all ranks of torchrun's but the first.

    Raises
    ------
    DataError
        When what was timed cannot be.
    MeasurementError
        When a rank fails, or time is up.
    UsageError
        When the backend is not there or has too few devices, or torchrun started too few ranks.
    MissingExtraError
        When PyTorch is not installed.
    """
    most = max(settings.ranks)
    if not was_started_by_torchrun():
        rows = run_ranks(measure_all, most, (settings,), backend=backend or choose_backend(most), timeout_s=timeout_s)
        return collect(rows, place)
    started, rank, device = (int(os.environ[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
    if most > started:
        message = f"ranks: got {most}, and torchrun started {started} ranks"
        raise UsageError(f"{message}; start more, or ask for fewer")
    backend = backend or choose_backend(int(os.environ["LOCAL_WORLD_SIZE"]))
    check_backend(backend, device + 1)
    with joined_group(backend, device, timeout=timedelta(seconds=timeout_s)):
        rows = measure_all(settings)
    return collect(rows, place) if rank == 0 else None


def was_started_by_torchrun(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether torchrun started this process as one rank among several."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(environment)


def measure_all(settings: ProbeSettings) -> list[dict[str, Any]]:
    """Measure every point on every rank of the default process group; ranks in fewer points return fewer timings.

    A timing says ``ranks``, ``transfers``, ``size_bytes``, and ``time_s`` until the last of the transfers was done on
    the slowest rank.
    """
    import torch.distributed as group

    rows, device = [], "cuda" if group.get_backend() == NCCL else "cpu"
    for ranks in settings.ranks:
        members = group.new_group(list(range(ranks)))  # every rank has to call this, member or not
        if group.get_rank() < ranks:
            points = ((transfers, size) for transfers in settings.transfers for size in settings.sizes_bytes)
            for transfers, size in points:
                point = {"ranks": ranks, "transfers": transfers, "size_bytes": size}
                measured = _measure_point(members, size, transfers, settings, device)
                rows += [{**point, "time_s": time_s} for time_s in measured]
        group.barrier()
    return rows


def _measure_point(
    members: ProcessGroup, size_bytes: int, transfers: int, plan: ProbeSettings, device: str
) -> list[float]:
    torch = require_torch()
    numbers = size_bytes // _BYTES_PER_NUMBER
    buffers = [torch.zeros(numbers, dtype=torch.float32, device=device) for _ in range(transfers)]
    for _ in range(plan.warm_up):
        _time_turns(members, buffers, 1)
    once_s = _time_turns(members, buffers, 1)
    turns = _MOST_TURNS if once_s * _MOST_TURNS <= plan.timing_s else max(1, round(plan.timing_s / once_s))
    return [_time_turns(members, buffers, turns) for _ in range(plan.repeats)]


def _time_turns(members: ProcessGroup, buffers: list[Tensor], turns: int) -> float:
    """Return the mean seconds of a turn on the slowest rank; every rank returns the same."""
    torch = require_torch()
    import torch.distributed as group

    device = buffers[0].device
    group.barrier(group=members)
    start = time.perf_counter()
    for _ in range(turns):
        works = [group.all_reduce(buffer, group=members, async_op=True) for buffer in buffers]
        for work in works:
            work.wait()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    taken = torch.tensor([(time.perf_counter() - start) / turns], dtype=torch.float64, device=device)
    group.all_reduce(taken, op=group.ReduceOp.MAX, group=members)
    return float(taken.item())


def collect(timings: Sequence[Mapping[str, Any]], place: Place) -> AllreduceData:
    """Make a table of measurements from the timings of :func:`measure_all` at a place."""
    rows = []
    for timing in timings:
        size, ranks = timing["size_bytes"], timing["ranks"]
        rows.append(Measurement(place, size, ranks, bandwidth_of(size, ranks, timing["time_s"]), timing["transfers"]))
    return AllreduceData(tuple(rows))


def describe_place(
    vm_type: str, *, cloud: str = "", region: str = "", zone: str = "", rated_gbit_per_s: float | None = None
) -> Place:
    """Describe the machine at hand: what is given, and the cores, memory and GPU that it has.

    Parameters
    ----------
    vm_type
        The name under which instances ask for the bandwidth.
    cloud, region, zone, rated_gbit_per_s
        As the provider states them.
    """
    torch = require_torch()
    return Place(
        vm_type=vm_type,
        cloud=cloud,
        region=region,
        zone=zone,
        gpu=str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else "",
        cpu_cores=float(os.cpu_count() or 0) or None,
        memory_gib=_count_memory_gib(),
        rated_gbit_per_s=rated_gbit_per_s,
    )


def _count_memory_gib() -> float | None:
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # systems that do not tell
        return None
    return round(pages / 2**30, 1) if pages > 0 else None
