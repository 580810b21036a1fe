"""Measures real all-reduces with torch.distributed, over sizes, ranks and simultaneous transfers (4.2).

On one machine the ranks are processes that talk over the loopback interface (gloo) or between its GPUs (nccl). On
several machines torchrun starts the ranks, and each of them calls :func:`probe`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from optplan.errors import UsageError
from optplan.profiling.allreduce_data import AllreduceData, Measurement, Place, bandwidth_of
from optplan.profiling.process_groups import NCCL, check_backend, choose_backend, joined_group, run_ranks
from optplan.profiling.workloads import require_torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

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
