"""Speedups of a log's classes: measured, stated, fitted to runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError, UsageError
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.records import Row
from optplan.instances.job_logs.speedups import Measured, SpeedupSources, read_assumption, read_measured
from optplan.schema import FloatArray
from optplan.speedup import AmdahlSpeedup, TableSpeedup

TABLE = "class,gpus,samples_per_s\nvision,1,100\nvision,2,180\nvision,4,300\n"


def _runs(*runs: tuple[int, float], completed: bool = True) -> Jobs:
    """Make jobs of so many GPUs and hours."""
    return Jobs.of(
        Row("", "", "job", "", 0.0, None, 3600.0 * hours, gpus, "", "", 0, completed) for gpus, hours in runs
    )


def test_throughputs_come_as_csv(tmp_path: Path) -> None:
    """The figures of each class, as they stand there."""
    table = tmp_path / "t.csv"
    table.write_text(TABLE, encoding="utf-8")
    assert read_measured(table) == Measured({"vision": ([1, 2, 4], [100.0, 180.0, 300.0])})


def test_a_profile_of_one_class(tmp_path: Path) -> None:
    """What `optplan measure jobs` writes: its class has the file's name, or the one that is given."""
    curve = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0], "provenance": ["measured"] * 3}
    path = tmp_path / "vision.json"
    path.write_text(json.dumps({"reference_width": 1, "rescale_s": 42, "speedup": {"t4": curve}}), encoding="utf-8")
    figures = ([1, 2, 4], [1.0, 1.8, 3.0])
    assert read_measured(path) == Measured({"vision": figures}, {"vision": 42.0})
    assert read_measured(path, "nlp") == Measured({"nlp": figures}, {"nlp": 42.0})
    path.write_text(json.dumps({"speedup": {"t4": curve | {"error": [0.0, 0.1, 0.3]}}}), encoding="utf-8")
    found = SpeedupSources(read_measured(path), {}).find("vision", Jobs.of(())).curve
    assert found.error is not None
    assert np.atleast_1d(found.error).tolist() == [0.0, 0.1, 0.3]
    table = tmp_path / "t.csv"
    table.write_text(TABLE, encoding="utf-8")
    assert not read_measured(path).add(read_measured(table)).errors  # the table's say nothing
    with pytest.raises(DataError, match=r"is a table of throughputs, which names its classes itself \(not 'nlp'\)"):
        read_measured(table, "nlp")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "class,gpus\nx,1\n", r"no column samples_per_s; found class, gpus"),
        ("t.csv", TABLE + "vision,8,0\n", r"t\.csv:5: samples_per_s is 0; a number above zero is needed; leave it"),
        ("t.csv", TABLE + "vision,0,5\n", r"t\.csv:5: gpus is '0'; a whole number of at least 1"),
        ("t.csv", "class,gpus,samples_per_s\n", r"has no throughputs; give rows of class, gpus, samples_per_s"),
        (
            "t.json",
            '[{"class": "x"}]',
            r"t\.json: is not what `optplan measure jobs` wrote of a class; give that, or a CSV with class",
        ),
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
        (
            "t.json",
            '{"a": 1}',
            r"t\.json: is not what `optplan measure jobs` wrote of a class; give that, or a CSV with class",
        ),
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
    sources, none = SpeedupSources(Measured(measured), {"nlp": "power:0.5", "": "linear"}), {"": "none"}
    assert sources.find("vision", runs).words == "measured at 1, 2, 4 GPUs"
    assert sources.find("nlp", runs).words == "assumed: power:0.5"
    assert sources.find("other", runs).words.startswith("fitted to 3 completed runs on 1, 2, 4 GPUs: ")
    assert sources.find("other", narrow).words == "assumed: linear"
    assert SpeedupSources(Measured({}), {"": "linear"}, fit_runs=none).find("other", runs).words == "assumed: linear"
    with pytest.raises(DataError, match=r"x\.speedup: is not known: its runs are not to be fitted; measure it"):
        SpeedupSources(Measured({}), {}, fit_runs=none).find("x", runs)


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
    message = (
        r"is not known: no run completed, on any of 1, 4, 16 GPUs; measure it, .* by --fit-runs x=all, or leave such"
    )
    with pytest.raises(DataError, match=message):
        SpeedupSources(Measured({}), {}).find("x", failed)
    every = SpeedupSources(Measured({}), {}, fit_runs={"x": "all"}).find("x", Jobs.of([*completed, *failed]))
    assert every.words.startswith("fitted to 6 runs on 1, 4, 16 GPUs")
    assert every.at(np.array([16]))[0] < 2.5


def test_a_fit_to_runs_finds_the_law_they_follow() -> None:
    """Runs of 10 h / s(k) under Amdahl's law with 10 %, at five widths, with noise of 5 %: within a few per cent."""
    rng = np.random.default_rng(0)
    runs = [(k, 10.0 * (0.1 + 0.9 / k) * float(np.exp(0.05 * rng.standard_normal()))) for k in (1, 2, 4, 8, 16) * 20]
    found = SpeedupSources(Measured({}), {}).find("x", _runs(*runs))
    assert found.at(np.array([16]))[0] == pytest.approx(1 / (0.1 + 0.9 / 16), rel=0.05)
    assert "single runs scatter by 5%" in found.words
    assert found.warning == ""
    # Logs of s fall with the fraction by (k - 1) / (1 + 0.1 (k - 1)), 0 to 6; 20 of each of five such slopes have a sum
    # of squares of 471, and Student's 1.66 * 0.05 / sqrt 471 = 0.0038 times 7.56, the slope at 32 GPUs, is 0.029, for
    # each of five doublings 0.0058; a little more as the power law is not impossible.
    assert isinstance(found.curve, AmdahlSpeedup)
    assert found.curve.error is not None
    assert 0.0058 < found.curve.error < 0.02


def test_two_widths_are_no_test_of_a_law() -> None:
    """Nor are three of which one hardly ever comes."""
    pair = SpeedupSources(Measured({}), {}).find("x", _runs(*[(2, 2.0), (4, 1.2)] * 20))
    assert pair.warning.startswith("two widths carry the fit")
    assert "on 2, 4 GPUs, which it keeps to: 1.67 times as fast on the more, in 9 of 10 cases off by" in pair.words
    far = SpeedupSources(Measured({}), {}).find("x", _runs((1, 2.0), (1_000_000, 1.0)))
    assert isinstance(far.curve, TableSpeedup)  # of two runs nothing is known: an error as large as may be stated
    assert far.curve.error == pytest.approx([0.0, 1000.0])
    rare = SpeedupSources(Measured({}), {}).find("x", _runs(*[(2, 2.0), (4, 1.2)] * 20, (8, 0.9)))
    assert rare.warning.startswith("two widths carry the fit")


def test_two_widths_are_compared_by_their_means() -> None:
    """Run times 2 e^0.3 and 2 e^-0.3 h on 2 GPUs, twice, and e^0.3 and e^-0.3 h on 4: 2 times as fast, as by the means.

    The scatter is sqrt(6 * 0.09 / 4) = 0.367; Student's 2.132 times 0.367 sqrt(1/4 + 1/2) is 0.678, of which ln 2 =
    0.693 is more. Of a class that doubles, from the four runs on 2 GPUs.
    """
    factor = float(np.exp(0.3))
    runs = _runs(*[(2, 2 * factor), (2, 2 / factor)] * 2, (4, factor), (4, 1 / factor))
    found = SpeedupSources(Measured({}), {}).find("x", runs)
    assert found.reference_width == 2
    assert isinstance(found.curve, TableSpeedup)
    assert found.curve.speedup.tolist() == pytest.approx([1.0, 2.0])
    assert found.curve.evidence_at(np.array([2, 4])) == ["fitted"] * 2
    low, high = found.curve.band_at(np.array([2, 4]), 2)
    assert high[0] / low[0] == pytest.approx([1.0, np.exp(2 * 0.678)], rel=1e-3)


def test_two_single_runs_say_next_to_nothing() -> None:
    """1.5 times as fast on four times the GPUs: by a factor of four off, none of the gain to all of it is within."""
    found = SpeedupSources(Measured({}), {}).find("x", _runs((2, 3.0), (8, 2.0)))
    low, high = found.curve.band_at(np.array([2, 8]), 2)
    assert (low[0].tolist(), high[0].tolist()) == ([1.0, pytest.approx(1.5 / 4)], [1.0, pytest.approx(6.0)])


def test_a_class_that_never_ran_on_one_gpu_keeps_to_its_widths() -> None:
    """The law through them, relative to the width of most runs, with an error that grows with the doublings from it."""
    rng = np.random.default_rng(0)
    widths = [4] * 10 + [8] * 30 + [16] * 10
    hours = [10.0 / k**0.8 * float(np.exp(0.2 * rng.standard_normal())) for k in widths]
    found = SpeedupSources(Measured({}), {}).find("x", _runs(*zip(widths, hours, strict=True)))
    assert found.reference_width == 8
    assert isinstance(found.curve, TableSpeedup)
    assert found.curve.gpus.tolist() == [4, 8, 16]
    assert found.curve.error is not None
    assert found.curve.error[1] == 0.0
    assert found.curve.error[0] == pytest.approx(found.curve.error[2])
    low, high = found.curve.band_at(np.array([4, 16]), 8)
    assert low[0].tolist() < [0.5**0.8, 2**0.8] < high[0].tolist()
    assert found.words.startswith("fitted to 50 completed runs on 4, 8, 16 GPUs, which it keeps to: ")


def test_bands_contain_the_truth() -> None:
    """Of 20 logs of known truth, between 90 % and all of the widths at which jobs ran lie within their bands.

    Sizes are lognormal and know nothing of widths; laws are Amdahl's, powers, and one that is neither: communication
    that overlaps with computing, 1 / (k^-2 + 1/64)^0.5.
    """
    laws: list[Callable[[FloatArray], FloatArray]] = [
        lambda k: k / (1.0 + 0.03 * (k - 1.0)),
        lambda k: k**0.8,
        lambda k: 1.0 / np.sqrt(1.0 / k**2 + np.where(k > 1, 1.0, 0.0) / 64.0),
        lambda k: k / (1.0 + 0.2 * (k - 1.0)),
    ]
    held = total = 0
    for number in range(20):
        rng, law = np.random.default_rng(number), laws[number % 4]
        widths = ([1, 2, 4, 8], [4, 8], [2, 4, 8, 16], [1, 2, 4], [8, 16, 32])[number % 5]
        gpus = rng.choice(widths, 20 if number < 10 else 200)
        hours = 10.0 * np.exp(0.5 * rng.standard_normal(gpus.size)) / law(gpus.astype(float))
        found = SpeedupSources(Measured({}), {}).find("x", _runs(*zip(gpus.tolist(), hours.tolist(), strict=True)))
        others = np.array([width for width in widths if width != found.reference_width])
        low, high = found.curve.band_at(others, found.reference_width)
        truth = law(others.astype(float)) / law(np.array([float(found.reference_width)]))
        held += int(((low[0] <= truth) & (truth <= high[0])).sum())
        total += others.size
    assert held >= 0.9 * total


def test_wider_jobs_that_are_larger_are_pointed_out() -> None:
    """Runs that take longer on more GPUs say nothing of the speedup."""
    found = SpeedupSources(Measured({}), {}).find("x", _runs(*[(1, 1.0), (2, 2.0), (4, 4.0)] * 5))
    assert found.warning == (
        "the fit ends at its bound, for runs on 4 GPUs took 4 times as long as on 1; "
        "were jobs on more GPUs larger ones? Measure how they scale"
    )


def test_many_runs_say_how_jobs_scale() -> None:
    """30,000 runs of a class at three widths."""
    rng = np.random.default_rng(0)
    widths = rng.choice([1, 2, 4], 30_000, p=[0.7, 0.2, 0.1])
    hours = 10.0 / widths**0.8 * np.exp(0.3 * rng.standard_normal(30_000))
    found = SpeedupSources(Measured({}), {}).find("x", _runs(*zip(widths.tolist(), hours.tolist(), strict=True)))
    assert "fitted to 30,000 completed runs" in found.words
    assert found.at(np.array([4]))[0] == pytest.approx(4**0.8, rel=0.03)


def test_between_widths_of_a_table_and_beyond() -> None:
    """Three GPUs lie between 180 and 300 on a line of logarithms; eight are not known."""
    found = SpeedupSources(Measured({"x": ([1, 2, 4], [100.0, 180.0, 300.0])}), {}).find("x", Jobs.of(()))
    three = 1.8 * (3 / 1.8) ** (np.log(1.5) / np.log(2))
    assert found.at(np.array([1, 3, 4])).tolist() == pytest.approx([1.0, three, 3.0])
    assert np.isnan(found.at(np.array([8]))[0])
