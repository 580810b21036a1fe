from __future__ import annotations

import multiprocessing
import operator
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from optplan.errors import MeasurementError, UsageError
from optplan.profiling.allreduce_data import Origin, Place, read_measurements
from optplan.profiling.allreduce_prober import (
    ProbeSettings,
    check_backend,
    choose_backend,
    collect,
    describe_place,
    probe,
    run_ranks,
    was_started_by_torchrun,
)

# Nothing is loaded where tests are collected: PyTorch takes seconds, and few of the quick ones need it.
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="the extra torch is not installed")

#: Two sizes, one and two transfers, two timings of each: 8 rows.
TINY = ProbeSettings(most_bytes=8, transfers=(1, 2), repeats=2, warm_up=1, timing_s=0.001)


@pytest.mark.real
def test_real_all_reduces_between_two_processes_are_measured() -> None:
    """Two ranks give a row for each size, number of transfers and repeat; no process is left behind."""
    data = probe(TINY, Place("here"), timeout_s=120)
    assert data is not None
    rows = data.rows
    assert [(each.ranks, each.transfers, each.size_bytes) for each in rows] == [
        (2, transfers, size) for transfers in (1, 2) for size in (4, 8) for _ in range(2)
    ]
    assert all(each.time_s > 0 and each.place == Place("here") for each in rows)
    assert not multiprocessing.active_children()


@pytest.mark.real
def test_ranks_that_torchrun_started_measure_together(tmp_path: Path) -> None:
    """Both ranks run the command; the first one writes the file, the other one nothing."""
    output = tmp_path / "measurements.csv"
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    probe = ["-m", "optplan.cli", "measure", "allreduce", "--least-bytes", "4B", "--most-bytes", "8B", "--repeats", "1"]
    # The ranks import the very package under test.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [*command, *probe, "-o", str(output)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"wrote {output}") == 1
    data = read_measurements(output)
    assert [(row.ranks, row.size_bytes, row.transfers) for row in data.rows] == [(2, 4, 1), (2, 8, 1)]


@pytest.mark.real
def test_a_rank_that_fails_is_named_and_the_others_end() -> None:
    """The message holds the rank's own error, and no process is left behind."""
    with pytest.raises(MeasurementError, match=r"rank [01] of 2 failed: ZeroDivisionError: division by zero"):
        run_ranks(operator.truediv, 2, (1, 0), timeout_s=120)
    assert not multiprocessing.active_children()


@pytest.mark.real
def test_ranks_that_take_too_long_are_ended() -> None:
    """A process needs longer to start than it gets here; none is left behind."""
    with pytest.raises(MeasurementError, match=r"no answer from 2 ranks within 0\.1 s; they were ended; give more"):
        run_ranks(operator.truediv, 2, (1, 1), timeout_s=0.1)
    assert not multiprocessing.active_children()


def test_sizes_are_the_powers_of_two_between_two_ends() -> None:
    """The ends belong to them where they are powers of two; 16 MB ends at 8 MiB."""
    assert ProbeSettings(least_bytes=8, most_bytes=64).sizes_bytes == (8, 16, 32, 64)
    assert ProbeSettings(most_bytes=20).sizes_bytes == (4, 8, 16)
    assert ProbeSettings(most_bytes=16_000_000).sizes_bytes[-1] == 8 * 2**20
    with pytest.raises(UsageError, match="sizes: no power of two from 17 to 31 bytes; widen the range"):
        ProbeSettings(least_bytes=17, most_bytes=31)


def test_bus_bandwidth_of_a_row_is_volume_over_time() -> None:
    """Four ranks move 2 * 3/4 * 1e6 bytes each; in 1 ms that is 12 Gbit/s."""
    timing = {"ranks": 4, "size_bytes": 1_000_000, "transfers": 2, "time_s": 1e-3}
    data = collect([timing], Place("g4dn"))
    (row,) = data.rows
    assert row.bus_gbit_per_s == pytest.approx(12.0)
    assert row.time_s == pytest.approx(1e-3)
    assert (row.ranks, row.size_bytes, row.transfers, row.place.vm_type) == (4, 1_000_000, 2, "g4dn")
    assert data.origin is Origin.MEASURED


def test_a_place_is_described_by_what_the_machine_says() -> None:
    """What is given is kept; the cores and the memory are this machine's."""
    place = describe_place("g4dn.xlarge", cloud="aws", region="us-west-2", rated_gbit_per_s=25.0)
    assert (place.vm_type, place.cloud, place.region, place.zone) == ("g4dn.xlarge", "aws", "us-west-2", "")
    assert place.rated_gbit_per_s == 25.0
    assert place.cpu_cores == os.cpu_count()
    assert place.memory_gib is None or place.memory_gib > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ranks": (1, 2)}, r"ranks: got \[1, 2\]; list whole numbers from 2 on, each once"),
        ({"ranks": ()}, r"ranks: got \[\]; list"),
        ({"transfers": (8, 8)}, r"transfers: got \[8, 8\]; list whole numbers from 1 on, each once"),
        ({"most_bytes": 3}, "sizes: no power of two from 4 to 3 bytes"),
        ({"transfers": (0,)}, r"transfers: got \[0\]; list whole numbers from 1 on"),
        ({"repeats": 0}, "repeats 0, .* at least one repeat and no negative numbers are needed"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: dict[str, object], message: str) -> None:
    """Settings are checked before a process starts."""
    with pytest.raises(UsageError, match=message):
        ProbeSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_backends_that_are_not_there_are_named() -> None:
    """Nothing is started with a backend that this machine lacks, or without ranks."""
    with pytest.raises(UsageError, match="backend: got 'mpi'; usable with this PyTorch and machine: gloo"):
        check_backend("mpi", 2)
    with pytest.raises(UsageError, match="ranks: got 0; whole numbers from 1 on are allowed"):
        check_backend("gloo", 0)


@pytest.mark.slow
def test_nccl_needs_a_gpu_for_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with two GPUs, three ranks with nccl are refused."""
    import torch.distributed

    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_backend("nccl", 2)
    assert [choose_backend(ranks) for ranks in (2, 3)] == ["nccl", "gloo"]
    with pytest.raises(UsageError, match="ranks: got 3 with nccl, and there are 2 CUDA devices here; take fewer"):
        check_backend("nccl", 3)


def test_more_ranks_than_torchrun_started_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two started ranks cannot measure four."""
    named = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    for name, value in {**named, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="ranks: got 4, and torchrun started 2 ranks; start more"):
        probe(ProbeSettings(ranks=(2, 4)), Place("here"))


def test_torchrun_is_recognised_by_what_it_sets() -> None:
    """All six of its variables have to be there."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert was_started_by_torchrun(dict.fromkeys(names, "1"))
    assert not was_started_by_torchrun(dict.fromkeys(names[1:], "1"))
