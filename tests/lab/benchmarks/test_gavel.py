"""Instances from Gavel's tables and traces: hand-made ones by arithmetic, the public ones by their figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gavel import build_gavel_instance, name_class, read_throughputs, read_trace

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.instances.library import build_named
from optplan.speedup import TableSpeedup

#: A trace by hand has few jobs, and each of them carries much.
pytestmark = pytest.mark.filterwarnings("ignore:classes.* rests on:optplan.errors.DataWarning")

#: Mini-batches per second alone, by worker, job type and number of GPUs.
TABLE = {
    "v100": {("LM (batch size 5)", 1): 10.0, ("LM (batch size 5)", 2): 16.0, ("A3C", 1): 4.0},
    "k80": {("LM (batch size 5)", 1): 0.0, ("LM (batch size 5)", 2): 8.0, ("A3C", 1): 0.0},
    "v100_unconsolidated": {("LM (batch size 5)", 1): 10.0, ("LM (batch size 5)", 2): 12.0, ("A3C", 1): 4.0},
}

#: Job type, total steps, scale factor, arrival in seconds.
JOBS = (("LM (batch size 5)", 36000, 4, 0.0), ("A3C", 14400, 1, 60.0), ("LM (batch size 5)", 108000, 1, 7000.0))


def _rows(fields: int) -> str:
    """Write the jobs as a simulation's trace (7 fields) or a physical cluster's (10)."""
    if fields == 7:
        rows = [f"{name}\trun it\t-n\t1\t{steps}\t{time}\t{gpus}" for name, steps, gpus, time in JOBS]
    else:
        rows = [f"{name}\trun it\tlm\t-n\t1\t{steps}\t{gpus}\t1\t-1.0\t{time}" for name, steps, gpus, time in JOBS]
    return "\n".join(rows) + "\n"


def _table(entries: dict[str, dict[tuple[str, int], float]]) -> str:
    return json.dumps(
        {w: {str(pair): {"null": per_s, "x": [1, 1]} for pair, per_s in jobs.items()} for w, jobs in entries.items()}
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return the hand-made trace and table."""
    trace, table = tmp_path / "small.trace", tmp_path / "throughputs.json"
    trace.write_text(_rows(7), encoding="utf-8")
    table.write_text(_table(TABLE), encoding="utf-8")
    return trace, table


def _speeds(instance: BoaInstance, name: str, gpu: str) -> dict[int, float]:
    curve = instance.classes[name].speedup[gpu]
    assert isinstance(curve, TableSpeedup)
    return dict(zip(curve.gpus.tolist(), curve.speedup.ravel().tolist(), strict=True))


def test_classes_by_hand(files: tuple[Path, Path]) -> None:
    """Two jobs in 2 h (1.94 rounded up) of 72,000 steps on average at 10 a second: 2 h each; K80s need two GPUs."""
    instance = build_gavel_instance(*files, ("v100", "k80"))
    lm, a3c = instance.classes["lm-b5"], instance.classes["a3c"]
    assert (lm.arrival_rate_per_hour, a3c.arrival_rate_per_hour) == (1.0, 0.5)
    assert (lm.size_gpu_hours, a3c.size_gpu_hours) == pytest.approx((2.0, 1.0))  # 14,400 steps at 4 a second
    assert _speeds(instance, "lm-b5", "v100") == pytest.approx({1: 1.0, 2: 1.6})
    assert _speeds(instance, "lm-b5", "k80") == pytest.approx({2: 0.8})
    assert set(a3c.speedup) == {"v100"}
    assert instance.source["cannot run"] == "a3c on k80"
    assert instance.source["widths left out"] == "lm-b5 on k80: 1"
    assert (instance.problem, instance.budget) == (Problem.WHOLE, None)


def test_the_first_type_on_which_a_class_runs_is_its_reference(files: tuple[Path, Path]) -> None:
    """With K80s first, sizes are times on two of them, 72,000 steps at 8 a second = 2.5 h; A3C takes the V100."""
    instance = build_gavel_instance(*files, ("k80", "v100"))
    lm = instance.classes["lm-b5"]
    assert lm.reference_width == 2
    assert lm.size_gpu_hours == pytest.approx(2.5)
    assert _speeds(instance, "lm-b5", "v100") == pytest.approx({1: 1.25, 2: 2.0})
    assert instance.classes["a3c"].reference_width == 1
    assert instance.source["other references"] == "a3c to 1 GPU of v100, lm-b5 to 2 GPUs of k80"


def test_servers_can_be_spread(files: tuple[Path, Path]) -> None:
    """Two GPUs in two servers do 12 mini-batches a second, not 16."""
    instance = build_gavel_instance(*files, ("v100",), consolidated=False)
    assert _speeds(instance, "lm-b5", "v100") == pytest.approx({1: 1.0, 2: 1.2})


def test_both_layouts_of_traces_say_the_same(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Steps, GPUs asked for and arrival stand elsewhere in the traces of the physical cluster."""
    other = tmp_path / "physical.trace"
    other.write_text(_rows(10), encoding="utf-8")
    assert read_trace(other) == read_trace(files[0])
    assert [job.requested_gpus for job in read_trace(other)] == [4, 1, 1]


def test_a_span_and_some_job_types(files: tuple[Path, Path]) -> None:
    """Two LM jobs in the four hours that the caller says."""
    instance = build_gavel_instance(*files, ("v100",), span_h=4.0, job_types=("LM (batch size 5)",))
    assert {name: c.arrival_rate_per_hour for name, c in instance.classes.items()} == {"lm-b5": 0.5}
    assert "4 h (given by the caller)" in instance.source["arrival rates"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": ("v10",)}, r"throughputs\.json: has no throughputs of 'v10'; did you mean 'v100'\?"),
        ({"gpus": ()}, r"^gpus: is empty; name at least one type of GPU, such as v100$"),
        ({"gpus": ("v100", "v100")}, r"^gpus: 'v100' is given twice; name each type once$"),
        ({"gpus": ("k80",)}, r"^job_types: 'A3C': has no throughput above zero on k80; add a type of GPU on which"),
        ({"gpus": ("k80",), "consolidated": False}, r"has no throughputs of 'k80_unconsolidated'; .*v100_unconsolid"),
        (
            {"span_h": 1.0},
            r"trace: the last job arrives at 1\.94444 h, after the span of 1 h \(given by the caller\); give a longer",
        ),
        ({"span_h": 0.0}, r"^span_h: got 0\.0; hours above zero are allowed"),
        ({"job_types": ("LM",)}, r"^job_types: 'LM' has no job in small\.trace; known: LM \(batch size 5\), A3C"),
    ],
)
def test_wrong_calls(files: tuple[Path, Path], options: dict[str, object], message: str) -> None:
    """Every complaint says what there is."""
    build: Callable[..., BoaInstance] = build_gavel_instance
    with pytest.raises(DataError, match=message):
        build(*files, **({"gpus": ("v100",)} | options))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"small\.trace: the file holds no job; give a trace with one row per job$"),
        ("A3C\trun\t14400\n", r"small\.trace:1: 3 fields; rows of 7 or 10 fields between tabs are understood"),
        ("A3C\trun\t-n\t1\tmany\t0\t1\n", r"small\.trace:1: total steps is 'many'; a whole number of at least 1"),
        (
            "A3C\trun\t-n\t1\t9\t5\t1\nA3C\trun\t-n\t1\t9\t4\t1\n",
            r":2: arrival time is 4, after 5 in the row before; sort",
        ),
        ("B3C\trun\t-n\t1\t9\t5\t1\n", r"small\.trace: no throughput of 'B3C' is known; did you mean 'A3C'\?"),
        ("A3C\trun\t-n\t1\t9\t0\t1\n", r"small\.trace: all jobs arrive at 0, so they have no rate; give span_h"),
    ],
)
def test_wrong_traces(files: tuple[Path, Path], text: str, message: str) -> None:
    """With file and line."""
    files[0].write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        build_gavel_instance(*files, ("v100",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"throughputs\.json:1: is not JSON \(.*\); is the file cut short\?$"),
        ("[]", r"throughputs\.json: is not a table of throughputs by worker and job; give a table in Gavel's format$"),
        (
            json.dumps({"v100": {"('A3C', 1)": {"null": -1}}}),
            r"v100, \('A3C', 1\): the throughput alone is -1; a number of at least 0 is needed; correct",
        ),
        (json.dumps({"v100": {"('A3C', 1)": {"A3C": [1, 1]}}}), r"the throughput alone is None; a number"),
    ],
)
def test_wrong_tables(files: tuple[Path, Path], text: str, message: str) -> None:
    """With worker and job."""
    files[1].write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        build_gavel_instance(*files, ("v100",))


def test_missing_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    """As every file."""
    for pair in ((tmp_path / "no.trace", files[1]), (files[0], tmp_path / "no.json")):
        with pytest.raises(DataError, match=r"no\.(trace|json): (there is )?no such file"):
            build_gavel_instance(*pair, ("v100",))


def test_names_of_classes() -> None:
    """Short, and without blanks."""
    assert name_class("ResNet-18 (batch size 32)") == "resnet-18-b32"
    assert name_class("CycleGAN") == "cyclegan"


def test_older_tables_are_of_one_gpu(data_pack: Path) -> None:
    """Their keys name no scale factor; one V100 does 77.3 mini-batches of ResNet-18 at batch size 16 a second."""
    table = data_pack / "gavel" / "oracle_throughputs_v1.json"
    per_s = read_throughputs(table, "v100")
    assert len(per_s) == 26
    assert per_s["ResNet-18 (batch size 16)"] == pytest.approx({1: 77.31737353972872})
    assert {tuple(by_gpus) for by_gpus in per_s.values()} <= {(1,), ()}


def test_public_throughputs(data_pack: Path) -> None:
    """The figures that the data's README names: 18.0 to 162.1 on 8 V100; three K80 entries of zero."""
    table = data_pack / "gavel" / "simulation_throughputs.json"
    resnet = read_throughputs(table, "v100")["ResNet-18 (batch size 128)"]
    assert (round(resnet[1], 1), round(resnet[8], 1)) == (18.0, 162.1)
    on_k80 = read_throughputs(table, "k80")
    assert sum(len(by_gpus) for by_gpus in on_k80.values()) == 83 - 3
    assert list(on_k80["ResNet-50 (batch size 128)"]) == [1]


@pytest.fixture(scope="module")
def public(data_pack: Path) -> tuple[Path, Path]:
    """Return the simulated trace and the physical cluster's throughputs."""
    gavel = data_pack / "gavel"
    return gavel / "traces" / "msr" / "seed=0-0e4a51.trace", gavel / "physical_cluster_throughputs.json"


def test_the_public_trace(public: tuple[Path, Path]) -> None:
    """1181 jobs of 26 types over 85 days; one type runs on no K80."""
    instance = build_gavel_instance(*public)
    assert len(instance.classes) == 26
    assert sum(c.arrival_rate_per_hour for c in instance.classes.values()) * 2046 == pytest.approx(1181)
    assert {name for name, c in instance.classes.items() if "k80" not in c.speedup} == {"resnet-50-b128"}
    assert _speeds(instance, "cyclegan", "p100") == pytest.approx({1: 2.4026681703106223 / 4.735589112139888})


def test_sizes_do_not_depend_on_the_other_types(public: tuple[Path, Path]) -> None:
    """Those on V100s are the same whatever is imported with them; times do not depend on the order of the types."""
    alone, both = (build_gavel_instance(*public, gpus) for gpus in (("v100",), ("v100", "p100", "k80")))
    swapped = build_gavel_instance(*public, ("p100", "k80", "v100"))
    for name, job_class in both.classes.items():
        assert np.array_equal(job_class.epoch_size_gpu_hours, alone.classes[name].epoch_size_gpu_hours)
        for gpu in job_class.speedup:
            ours = {k: job_class.size_gpu_hours / s for k, s in _speeds(both, name, gpu).items()}
            other = swapped.classes[name]
            assert ours == pytest.approx({k: other.size_gpu_hours / s for k, s in _speeds(swapped, name, gpu).items()})


def test_the_library_holds_what_the_reader_derives(public: tuple[Path, Path]) -> None:
    """To the digits kept, with the prices of Google's list of 2022."""
    stored, derived = build_named("boa-gavel"), build_gavel_instance(*public)
    assert isinstance(stored, BoaInstance)
    assert {n: t.price_usd_per_hour for n, t in stored.gpu_types.items()} == {"v100": 2.48, "p100": 1.46, "k80": 0.45}
    assert set(stored.classes) == set(derived.classes)
    for name, job_class in stored.classes.items():
        assert job_class.size_gpu_hours == pytest.approx(derived.classes[name].size_gpu_hours, rel=1e-8)
        for gpu in derived.classes[name].speedup:
            assert _speeds(stored, name, gpu) == pytest.approx(_speeds(derived, name, gpu), rel=1e-5)


@pytest.mark.parametrize("text", ["1.0: {}\n", "v100: {1.0: {null: 2}}\n"])
def test_names_that_yaml_takes_for_numbers_are_no_table(files: tuple[Path, Path], text: str) -> None:
    """Neither of workers nor of jobs."""
    path = files[1].with_suffix(".yaml")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"is not a table of throughputs by worker and job; give a table in Gavel's"):
        build_gavel_instance(files[0], path, ("v100",))
