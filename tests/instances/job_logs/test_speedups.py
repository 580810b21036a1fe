"""Speedups of a log's classes: measured, stated, fitted to runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError, UsageError
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.records import Row
from optplan.instances.job_logs.speedups import Measured, SpeedupSources, read_assumption, read_measured
from optplan.speedup import TableSpeedup

TABLE = "class,gpus,samples_per_s\nvision,1,100\nvision,2,180\nvision,4,300\n"


def _runs(*runs: tuple[int, float], completed: bool = True) -> Jobs:
    """Make jobs of so many GPUs and hours."""
    return Jobs.of(
        Row("", "", "job", "", 0.0, None, 3600.0 * hours, gpus, "", "", 0, completed) for gpus, hours in runs
    )


def test_throughputs_come_as_csv_or_json(tmp_path: Path) -> None:
    """The same figures, also as a list within an object."""
    table, listed, within = tmp_path / "t.csv", tmp_path / "t.json", tmp_path / "w.json"
    table.write_text(TABLE, encoding="utf-8")
    rows = [{"class": "vision", "gpus": k, "samples_per_s": s} for k, s in ((1, 100), (2, 180.0), (4, 300))]
    listed.write_text(json.dumps(rows), encoding="utf-8")
    within.write_text(json.dumps({"device": "T4", "throughputs": rows}), encoding="utf-8")
    expected = {"vision": ([1, 2, 4], [100.0, 180.0, 300.0])}
    assert read_measured(table) == read_measured(listed) == read_measured(within) == Measured(expected)


def test_a_profile_of_one_class(tmp_path: Path) -> None:
    """What `optplan measure jobs` writes: its class has the file's name, or the one that is given."""
    curve = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0], "provenance": ["measured"] * 3}
    path = tmp_path / "vision.json"
    path.write_text(json.dumps({"reference_width": 1, "rescale_s": 42, "speedup": {"t4": curve}}), encoding="utf-8")
    figures = ([1, 2, 4], [1.0, 1.8, 3.0])
    assert read_measured(path) == Measured({"vision": figures}, {"vision": 42.0})
    assert read_measured(path, "nlp") == Measured({"nlp": figures}, {"nlp": 42.0})
    table = tmp_path / "t.csv"
    table.write_text(TABLE, encoding="utf-8")
    with pytest.raises(DataError, match=r"is a table of throughputs, which names its classes itself \(not 'nlp'\)"):
        read_measured(table, "nlp")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "class,gpus\nx,1\n", r"no column samples_per_s; found class, gpus"),
        ("t.csv", TABLE + "vision,8,0\n", r"t\.csv:5: samples_per_s is 0; a number above zero is needed; leave it"),
        ("t.csv", TABLE + "vision,0,5\n", r"t\.csv:5: gpus is '0'; a whole number of at least 1"),
        ("t.csv", "class,gpus,samples_per_s\n", r"has no throughputs; give rows of class, gpus, samples_per_s"),
        ("t.json", '[{"class": "x"}]', r"t\.json\[0\]: got \{'class': 'x'\}; a list of objects with class, gpus"),
        ("t.json", '{"speedup": {}}', r"t\.json: speedup: one table, of one type of GPU, is needed"),
        ("t.json", '{"speedup": {"t4": {"form": "amdahl"}}}', r"t\.json: speedup\.t4"),
        ("t.json", '{"speedup": {"t4": {"gpus": [1], "speedup": [[1], [1]]}}}', r"has a row for each epoch; give one"),
        (
            "t.json",
            '{"speedup": {"t4": {"gpus": [1], "speedup": [1]}}, "rescale_s": "long"}',
            r"t\.json: rescale_s: got 'long'; seconds are needed",
        ),
        (
            "t.json",
            '{"speedup": {"h100": {"gpus": [1], "speedup": [1], "provenance": "card"}}}',
            r"was computed from a model card, not measured; give it by --card t=",
        ),
        ("t.json", '{"a": 1}', r"t\.json: is no table of throughputs; a list of objects with class, gpus"),
    ],
)
def test_throughputs_that_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    """Naming file and row."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_measured(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "at_two"), [("amdahl:0.5", 2 / 1.5), ("power:0.5", 2**0.5), ("linear", 2.0), ("amdahl:1", 1.0)]
)
def test_assumptions(text: str, at_two: float) -> None:
    """1 / (f + (1 - f) / 2), 2 to the exponent, and 2."""
    assert read_assumption(text).at(np.array([2]))[0, 0] == pytest.approx(at_two)


@pytest.mark.parametrize("text", ["amdahl", "amdahl:2", "amdahl:x", "gustafson:0.1", "linear:0.1x", ""])
def test_assumptions_that_are_refused(text: str) -> None:
    """Unknown laws, and shares that are none."""
    with pytest.raises(UsageError, match=r"assume: got .*; amdahl:FRACTION \(the serial one\), power:EXPONENT"):
        read_assumption(text)


def test_what_is_known_best_comes_first() -> None:
    """Measured, then stated for the class, then its own runs, then what is stated for all."""
    measured = {"vision": ([1, 2, 4], [100.0, 180.0, 300.0])}
    runs, narrow = _runs((1, 4.0), (2, 2.5), (4, 1.8)), _runs((2, 1.0), (2, 2.0))
    sources = SpeedupSources(Measured(measured), {"nlp": "power:0.5", "": "linear"})
    assert sources.find("vision", runs).words == "measured at 1, 2, 4 GPUs"
    assert sources.find("nlp", runs).words == "assumed: power:0.5"
    assert sources.find("other", runs).words.startswith("fitted to 3 completed runs on 1, 2, 4 GPUs: ")
    assert sources.find("other", narrow).words == "assumed: linear"
    assert SpeedupSources(Measured({}), {"": "linear"}, fits=False).find("other", runs).words == "assumed: linear"
    with pytest.raises(DataError, match=r"x\.speedup: is not known: its runs are not to be fitted; measure it"):
        SpeedupSources(Measured({}), {}, fits=False).find("x", runs)


def test_where_a_speedup_comes_from_is_a_part_of_it() -> None:
    """Measured, assumed, fitted: the curve says it, at any width; and a class of one width knows that one alone."""
    runs, wide = _runs((1, 4.0), (2, 2.5), (4, 1.8)), np.array([1, 4])
    sources = SpeedupSources(Measured({"vision": ([1, 2, 4], [100.0, 180.0, 300.0])}), {"nlp": "power:0.5"})
    kinds = {name: sources.find(name, runs).curve.evidence_at(wide) for name in ("vision", "nlp", "other")}
    assert kinds == {"vision": ["measured"] * 2, "nlp": ["assumed"] * 2, "other": ["fitted"] * 2}
    kept = sources.find("other", _runs((2, 1.0), (2, 2.0)))
    assert (kept.reference_width, kept.warning) == (2, "")
    assert kept.curve == TableSpeedup(gpus=[2], speedup=[1.0], provenance=("measured",))
    assert kept.words == "unknown but for the 2 GPUs of its runs, so that it keeps to these"


def test_runs_that_did_not_complete_say_nothing_of_speedups() -> None:
    """Completed runs fall as 8 h / k^0.5; failed ones, which stop after 1 h on any width, would make that flatter."""
    completed, failed = _runs((1, 8.0), (4, 4.0), (16, 2.0)), _runs((1, 1.0), (4, 1.0), (16, 1.0), completed=False)
    found = SpeedupSources(Measured({}), {}).find("x", Jobs.of([*completed, *failed]))
    assert found.words.startswith("fitted to 3 completed runs on 1, 4, 16 GPUs")
    assert found.at(np.array([16]))[0] == pytest.approx(4.0, rel=1e-6)
    one = SpeedupSources(Measured({}), {}).find("x", Jobs.of([*completed[:1], *failed]))
    assert one.warning == "runs on other widths than 1 GPUs did not complete; it keeps to these"
    with pytest.raises(DataError, match=r"is not known: no run completed, on any of 1, 4, 16 GPUs; measure it, as by"):
        SpeedupSources(Measured({}), {}).find("x", failed)


def test_a_fit_to_runs_finds_the_law_they_follow() -> None:
    """Runs of 10 h / s(k) under Amdahl's law with 10 %, at five widths, with noise of 5 %: within a few per cent."""
    rng = np.random.default_rng(0)
    runs = [(k, 10.0 * (0.1 + 0.9 / k) * float(np.exp(0.05 * rng.standard_normal()))) for k in (1, 2, 4, 8, 16) * 20]
    found = SpeedupSources(Measured({}), {}).find("x", _runs(*runs))
    assert found.at(np.array([16]))[0] == pytest.approx(1 / (0.1 + 0.9 / 16), rel=0.05)
    assert "single runs scatter by 5%" in found.words
    assert found.warning == ""
    # Slope of a line through 100 points, log k spread by log 2 * sqrt 2: 0.05 / (10 * 0.98) * log 16 = 0.014.
    assert found.error == pytest.approx(0.014, rel=0.2)


def test_two_widths_are_no_test_of_a_law() -> None:
    """Nor are three of which one hardly ever comes."""
    pair = SpeedupSources(Measured({}), {}).find("x", _runs(*[(2, 2.0), (4, 1.2)] * 20))
    assert pair.warning.startswith("two widths carry the fit")
    rare = SpeedupSources(Measured({}), {}).find("x", _runs(*[(2, 2.0), (4, 1.2)] * 20, (8, 0.9)))
    assert rare.warning.startswith("two widths carry the fit")


def test_wider_jobs_that_are_larger_are_pointed_out() -> None:
    """Runs that take longer on more GPUs say nothing of the speedup."""
    found = SpeedupSources(Measured({}), {}).find("x", _runs(*[(1, 1.0), (2, 2.0), (4, 4.0)] * 5))
    assert found.warning == "the fit ends at its bound; were jobs on more GPUs larger ones?"


def test_many_runs_are_thinned_and_give_the_same_fit() -> None:
    """30,000 runs of a class at three widths, of which quantiles are looked at."""
    rng = np.random.default_rng(0)
    widths = rng.choice([1, 2, 4], 30_000, p=[0.7, 0.2, 0.1])
    hours = 10.0 / widths**0.8 * np.exp(0.3 * rng.standard_normal(30_000))
    found = SpeedupSources(Measured({}), {}).find("x", _runs(*zip(widths.tolist(), hours.tolist(), strict=True)))
    assert "fitted to 30,000 completed runs" in found.words
    assert found.at(np.array([4]))[0] == pytest.approx(4**0.8, rel=0.03)


def test_between_widths_of_a_table_and_beyond() -> None:
    """Three GPUs lie between 180 and 300 on a line of logarithms; eight are not known."""
    found = SpeedupSources(Measured({"x": ([1, 2, 4], [100.0, 180.0, 300.0])}), {}).find("x", [])
    three = 1.8 * (3 / 1.8) ** (np.log(1.5) / np.log(2))
    assert found.at(np.array([1, 3, 4])).tolist() == pytest.approx([1.0, three, 3.0])
    assert np.isnan(found.at(np.array([8]))[0])
