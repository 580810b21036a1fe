"""``optplan measure network`` and ``optplan measure allreduce``."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.profiling.allreduce_data import AllreduceData, Place, read_measurements
from optplan.profiling.allreduce_prober import ProbeSettings, collect
from optplan.profiling.profiled_instances import read_profile

if TYPE_CHECKING:
    from tests.conftest import Runner

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the extra torch is not installed")

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "convnet.py"
#: Few passes; times may fall while other tests run, and are levelled then.
QUICK = ("--repeats", "3", "--warm-up", "1", "--samples", "3", "--threads", "1", "--mend-falls")


@pytest.fixture(autouse=True)
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take passes that scatter: what is measured here shares the machine with other tests."""
    monkeypatch.setattr("optplan.profiling.torch_profiler._DEVIATION_OF_SPREAD", 0.1)


@needs_torch
def test_the_example_of_the_docs_is_profiled(run: Runner, tmp_path: Path) -> None:
    """The table and the file have the batches and the layers with their gradients."""
    output = tmp_path / "profile.json"
    target = f"{EXAMPLE}:make_network"
    options = ("--largest-batch", "4", "--network", "convnet", "--gpu", "desk")
    shown = run("measure", "network", target, *options, *QUICK, "-o", output)
    assert shown.code == 0, shown.err
    assert f"wrote {output}" in shown.err
    assert "passes (4)" in shown.out  # at 1, 2, 3 and 4 samples
    profile = read_profile(output)
    assert profile.network == "convnet"
    assert list(profile.devices) == ["desk"]
    assert profile.layers.names == ("9", "7", "3", "0")
    # Weights and biases of 4 bytes, from the last layer to the first.
    assert profile.layers.gradient_bytes.tolist() == [
        4 * (256 * 10 + 10),
        4 * (64 * 8 * 8 * 256 + 256),
        4 * (32 * 9 * 64 + 64),
        4 * (3 * 9 * 32 + 32),
    ]


@needs_torch
def test_profiles_of_two_devices_come_in_one_file(run: Runner, tmp_path: Path) -> None:
    """--merge adds the devices of another profile; --json prints what a file would hold."""
    target = f"{EXAMPLE}:make_network"
    other = tmp_path / "other.json"
    assert run("measure", "network", target, "--largest-batch", "2", "--gpu", "one", *QUICK, "-o", other).code == 0
    more = ("--largest-batch", "3", "--gpu", "two", "--merge", other)
    shown = run("measure", "network", target, *QUICK, *more, "--json")
    assert shown.code == 0, shown.err
    assert list(shown.data["devices"]) == ["two", "one"]


@needs_torch
def test_a_profile_is_added_to_an_instance(run: Runner, tmp_path: Path) -> None:
    """A fleet with one of two GPUs measured says what to run; --into runs it, and then the fleet is planned."""
    target, one, fleet, whole = f"{EXAMPLE}:make_network", *(tmp_path / name for name in ("p", "f.json", "w.json"))
    measure = ("measure", "network", target, "--largest-batch", "2", *QUICK)
    assert run(*measure, "--gpu", "one", "-o", one).code == 0
    types = {name: {"gpu": name, "price_usd_per_hour": 1, "network_gbit_per_s": 1} for name in ("one", "two")}
    job = json.loads(one.read_text(encoding="utf-8"))
    data = {"formulation": "srift", "version": 1, "job": job, "global_batch": 4, "iterations": 9, "types": types}
    fleet.write_text(json.dumps(data), encoding="utf-8")
    refused = run("solve", fleet)
    assert refused.code == 1
    assert "none of two (types two)" in refused.err
    assert run("solve", fleet, "--set", "types.two=null").code == 0
    made = run(*measure, "--gpu", "two", "--into", fleet, "-o", whole)
    assert made.code == 0, made.err
    assert run("solve", whole).code == 0


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("nowhere.py:make", "--largest-batch", "4"),
            1,
            "nowhere.py:make: there is no file nowhere.py; give a path",
        ),
        (("train.py", "--largest-batch", "4"), 2, "MODULE:FACTORY: got 'train.py'; write where the function is"),
        ((f"{EXAMPLE}:make_network",), 2, "--largest-batch: is needed on a CPU"),
        ((f"{EXAMPLE}:make_network", "--threads", "5000"), 2, "--threads: got 5000; whole numbers from 1 to 1,024 are"),
        ((f"{EXAMPLE}:make_network", "--repeats", "1"), 2, "--repeats: got 1; whole numbers from 3 on"),
        ((f"{EXAMPLE}:make_network", "--merge", "no.json"), 1, "no.json: no such file"),
    ],
)
def test_wrong_calls_of_profile_are_explained(arguments: tuple[str, ...], code: int, message: str, run: Runner) -> None:
    """One line on stderr says what is wrong; nothing is printed."""
    shown = run("measure", "network", *arguments)
    assert shown.code == code
    assert shown.out == ""
    assert message in shown.err


def test_a_missing_torch_names_the_extra(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands need PyTorch and say which extra brings it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    for command in (
        ("measure", "network", f"{EXAMPLE}:make_network", "--largest-batch", "4"),
        ("measure", "allreduce"),
    ):
        shown = run(*command)
        assert shown.code == 2
        assert 'torch is not installed; run: pip install "optplan[torch]"' in shown.err


@needs_torch
def test_probed_all_reduces_become_a_table(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options say what is measured; a row for each timing says what came out: 1.5 * 2 kB in 1 us are 24 Gbit/s."""
    asked: dict[str, object] = {}

    def measure(settings: ProbeSettings, place: Place, **options: object) -> AllreduceData:
        asked.update(options, settings=settings)
        return collect([{"ranks": 4, "size_bytes": 2000, "transfers": 1, "time_s": 1e-6}], place)

    monkeypatch.setattr("optplan.profiling.allreduce_prober.probe", measure)
    output = tmp_path / "measurements.csv"
    sizes = ("--least-bytes", "1KiB", "--most-bytes", "4KiB", "--ranks", "2,4", "--transfers", "1,2")
    shown = run(
        "measure",
        "allreduce",
        "--vm-type",
        "desk",
        *sizes,
        "--time-limit",
        "2min",
        "--repeats",
        "2",
        "-o",
        output,
        "--json",
    )
    assert shown.code == 0, shown.err
    settings = ProbeSettings(ranks=(2, 4), least_bytes=1024, most_bytes=4096, transfers=(1, 2), repeats=2)
    assert asked == {"settings": settings, "timeout_s": 120.0}
    (row,) = read_measurements(output).rows
    assert (row.place.vm_type, row.ranks, row.size_bytes) == ("desk", 4, 2000)
    assert row.bus_gbit_per_s == pytest.approx(24.0)
    assert len(json.loads(shown.out)) == 1
    assert "24" in run("measure", "allreduce").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ranks", "two"), "--ranks: got 'two'; whole numbers with commas between them are needed"),
        (("--ranks", "1"), "--ranks: got [1]; list whole numbers from 2 on, each once"),
        (("--most-bytes", "16Mb"), "--most-bytes: '16Mb' has no known unit of size"),
        (("--most-bytes", "3B"), "sizes: no power of two from 4 to 3 bytes"),
        (("--time-limit", "10"), "--time-limit: '10' has no known unit of time"),
    ],
)
def test_wrong_calls_of_probe_are_explained(arguments: tuple[str, ...], message: str, run: Runner) -> None:
    """Options are read before a process starts."""
    shown = run("measure", "allreduce", *arguments)
    assert shown.code == 2
    assert message in shown.err


def test_a_file_that_exists_stays(run: Runner, tmp_path: Path) -> None:
    """The output is refused before anything is measured."""
    output = tmp_path / "measurements.csv"
    output.write_text("mine", encoding="utf-8")
    shown = run("measure", "allreduce", "-o", output)
    assert shown.code == 1
    assert "exists; give another path, or --force to replace it" in shown.err
    assert output.read_text(encoding="utf-8") == "mine"
