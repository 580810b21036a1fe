"""Bandwidth learned with boosted trees: how well, from what, and that it says so."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError, DataWarning, MissingExtraError, UsageError
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT, MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.instances.files import read_instance, write_json
from optplan.profiling.allreduce_data import AllreduceData, Measurement, Origin, Place
from optplan.profiling.bandwidth_training import fill_bandwidth, learn_bandwidth, tabulate
from optplan.profiling.learned_bandwidth import (
    LearnedBandwidth,
    Loss,
    Target,
    predict_with,
    read_model,
    require_xgboost,
)

pytestmark = pytest.mark.skipif(find_spec("xgboost") is None, reason="the extra learn is not installed")


def _learn(data: AllreduceData) -> LearnedBandwidth:
    return learn_bandwidth(data, folds=3, depths=(3,), rounds=(10,))


def _grid(place: Place, sizes: range | list[int], gbit_per_s: float = 1.0) -> list[Measurement]:
    return [Measurement(place, size, 2, gbit_per_s * (1 + index)) for index, size in enumerate(sizes)]


@pytest.mark.slow
def test_each_side_of_the_mtu_is_chosen_by_its_error(learned: LearnedBandwidth) -> None:
    """Every loss and target is tried, the best wins, and it beats the rated bandwidth by far, as in 5.3."""
    for side in (learned.small, learned.large):
        assert side is not None
        assert {(trial.loss, trial.target) for trial in side.trials} == {(a, b) for a in Loss for b in Target}
        assert side.mape == min(trial.mape for trial in side.trials)
        assert side.mape < 0.2
        assert side.rated_mape is not None
        assert side.rated_mape > 1.0
    assert learned.small is not None
    assert learned.large is not None
    assert learned.small.rows + learned.large.rows == 14 * 2 * 4 * 3
    assert learned.small.rows == 6 * 2 * 4 * 3  # 4 B to 4 KiB


def test_the_error_is_that_of_rows_that_were_not_seen() -> None:
    """Bandwidths without rhyme or reason: repeated points do not help to predict others."""
    noise = np.random.default_rng(0).uniform(0.1, 10.0, 60)
    rows = [
        Measurement(Place("a"), 10_000 * (1 + index), 2, float(value))
        for index, value in enumerate(noise)
        for _ in "ab"
    ]
    side = _learn(AllreduceData(tuple(rows))).large
    assert side is not None
    assert side.mape > 0.3


def test_the_order_of_rows_does_not_matter(synthetic_data: AllreduceData) -> None:
    """The same trees, from a table that was shuffled."""
    turned = AllreduceData(synthetic_data.rows[::-1])
    assert _learn(turned) == _learn(synthetic_data)


def test_predictions_follow_what_was_measured(learned: LearnedBandwidth, synthetic_data: AllreduceData) -> None:
    """Within 30 % of each row's mean, and all above zero, for the smallest buffer, too."""
    points: dict[tuple[Place, int, int], list[float]] = {}
    for row in synthetic_data.rows:
        points.setdefault((row.place, row.ranks, row.size_bytes), []).append(row.bus_gbit_per_s)
    for (place, ranks, size), values in points.items():
        found = float(learned.predict(place, ranks, [size])[0])
        assert found == pytest.approx(np.mean(values), rel=0.3)
        assert found > 0


def test_no_prediction_is_below_what_was_measured() -> None:
    """Plain bandwidths of noisy steps make trees overshoot below zero, as the paper found; the least measured holds."""
    random = np.random.default_rng(0)
    features = np.column_stack([random.uniform(1, 100, 400), random.uniform(2, 64, 400)])
    measured = np.where(features[:, 0] > 50, 9.0, 1e-4 * features[:, 0]) * random.lognormal(0, 0.3, 400)
    xgboost = require_xgboost()
    settings = {"max_depth": 4, "nthread": 1, "base_score": 0.0}
    median = float(np.median(measured))
    booster = xgboost.train(settings, xgboost.DMatrix(features[:300], measured[:300] / median - 1.0, nthread=1), 200)
    least = float(measured[:300].min())
    free, held = (
        predict_with(booster, features[300:], Target.BANDWIDTH, median, floor, 200) for floor in (-math.inf, least)
    )
    assert free.min() < 0
    assert held.min() == least > 0
    assert held.tolist() == np.maximum(free, least).tolist()


def test_models_are_read_back(learned: LearnedBandwidth, synthetic_data: AllreduceData, tmp_path: Path) -> None:
    """With the fingerprint of the data, and with the same predictions."""
    path = tmp_path / "model.json"
    write_json(learned, path)
    again = read_model(path)
    assert again == learned
    assert again.fingerprint == synthetic_data.fingerprint
    assert again.origin is Origin.SYNTHETIC
    place = learned.places[0]
    sizes = [4.0, 1024.0, 2.0**20]
    expected = learned.predict(place, 8, sizes)
    assert again.predict(place, 8, sizes).tolist() == expected.tolist()


def test_other_files_are_no_models(learned: LearnedBandwidth, tmp_path: Path) -> None:
    """Another kind of file, another version, and trees that xgboost cannot read."""
    path = tmp_path / "model.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"model\.json: is no model of bandwidth; give what `optplan measure bandwidth`"
    ):
        read_model(path)
    path.write_text(json.dumps({**learned.to_json_data(), "version": 2}), encoding="utf-8")
    with pytest.raises(DataError, match=r"model\.json: version: got 2"):
        read_model(path)
    assert learned.small is not None
    broken = learned.replace(small=learned.small.replace(trees="{}"))
    with pytest.raises(DataError, match=r"trees: cannot be read by xgboost .* wrote them; learn the model again"):
        broken.predict(learned.places[0], 2, [4.0])


def test_a_side_without_measurements_has_no_model() -> None:
    """Sizes there are refused, not guessed."""
    model = _learn(AllreduceData(tuple(_grid(Place("a"), [10**power for power in range(4, 9)]))))
    assert model.small is None
    assert tabulate(model).tables["a"].sizes_bytes[0] == 10_000
    with (
        pytest.warns(DataWarning, match="lie beyond"),
        pytest.raises(
            DataError,
            match="sizes_bytes: got 4, and nothing up to the MTU of 9000 bytes was measured; measure such sizes",
        ),
    ):
        tabulate(model, sizes_bytes=(4, 10_000))


def test_a_row_as_large_as_the_mtu_teaches_both_sides() -> None:
    """The paper's halves are s <= MTU and s >= MTU; a question at the MTU goes to the model of small transfers."""
    data = AllreduceData(tuple(_grid(Place("a"), [1000, 2000, 4000, 8000, 16000])))
    model = learn_bandwidth(data, mtu_bytes=4000, folds=2, depths=(2,), rounds=(5,))
    assert model.small is not None
    assert model.large is not None
    assert (model.small.rows, model.large.rows) == (3, 3)
    assert model.side_of(4000) is model.small


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"folds": 6},
            DataError,
            "only 5 different points from 9000 bytes on, for 6 folds; measure more sizes or ranks",
        ),
        ({"folds": 1}, UsageError, "folds 1, .*: two folds or more, and whole numbers from 1 on, are needed"),
        ({"depths": ()}, UsageError, r"depths \[\], .*: two folds or more"),
        ({"rounds": (0,)}, UsageError, r"rounds \[0\]: two folds or more"),
    ],
)
def test_too_little_to_learn_from(options: dict[str, object], error: type[Exception], message: str) -> None:
    """Points are counted, not rows; and there has to be something to try."""
    rows = _grid(Place("a"), [10**power for power in range(4, 9)])
    with pytest.raises(error, match=message):
        learn_bandwidth(AllreduceData((*rows, *rows)), **options)  # type: ignore[arg-type]


def test_tables_say_what_they_are_made_of(learned: LearnedBandwidth) -> None:
    """That it was predicted, from synthetic data with its fingerprint, how well, and which type stands for which."""
    table = tabulate(learned, {"mine": "g4dn.4xlarge"}, (2, 4), (4, 2**20), region="us-east-1")
    assert list(table.tables) == ["mine"]
    assert table.tables["mine"].bus_gbit_per_s.shape == (2, 2)
    assert f"boosted trees learned from SYNTHETIC all-reduces, fingerprint {learned.fingerprint[:12]};" in table.source
    assert "cross-validated MAPE" in table.source
    assert table.source.endswith("in us-east-1; mine as g4dn.4xlarge")


def test_tables_are_what_the_model_predicts(learned: LearnedBandwidth) -> None:
    """The mean over the places of a type, asked for by an instance; without options, all that was measured."""
    table = tabulate(learned)
    assert set(table.tables) == {"p3.8xlarge", "g4dn.4xlarge"}
    found = table.bus_bytes_per_s([("p3.8xlarge", 1e9)], 8, np.array([2.0**20])) / BYTES_PER_GBIT
    places = [place for place in learned.places if place.vm_type == "p3.8xlarge"]
    assert len(places) == 2
    # Tables are rounded to digits that all processors share.
    assert found[0] == pytest.approx(np.mean([learned.predict(place, 8, [2.0**20]) for place in places]), rel=1e-8)
    one = tabulate(learned, ["p3.8xlarge"], region="us-west-2").tables["p3.8xlarge"]
    where = (one.ranks.tolist().index(8), one.sizes_bytes.tolist().index(2.0**20))
    assert one.bus_gbit_per_s[where] == pytest.approx(learned.predict(places[1], 8, [2.0**20])[0], rel=1e-8)  # sorted


def test_what_was_not_measured_is_refused_or_named(learned: LearnedBandwidth) -> None:
    """Types, regions and names are refused; ranks and sizes beyond the grid come with a warning."""
    with pytest.raises(DataError, match=r"types: 'p3.16xlarge' was not measured; did you mean 'p3.8xlarge'"):
        tabulate(learned, ["p3.16xlarge"])
    with pytest.raises(DataError, match=r"region: p3.8xlarge was not measured in 'eu'; known: us-east-1, us-west-2"):
        tabulate(learned, ["p3.8xlarge"], region="eu")
    with pytest.raises(DataError, match=r"gpu: got 'A100', where nothing was measured; did you mean 'V100'"):
        learned.predict(replace(learned.places[0], gpu="A100"), 2, [4.0])
    with pytest.warns(DataWarning, match="ranks: 16, 64 lie beyond what was measured, 2 to 8; trees predict there"):
        tabulate(learned, ranks=(8, 16, 64))


def test_measurements_may_be_tabulated_without_a_model() -> None:
    """The median of what was measured one at a time: 2 of 1, 2 and 9; a gap is refused."""
    rows = [
        Measurement(Place("a", region=region), 1000, 2, gbit_per_s)
        for region, gbit_per_s in (("east", 1.0), ("east", 2.0), ("west", 9.0))
    ]
    rows += [Measurement(Place("a", region="east"), 1000, 2, 7.0, transfers=4)]
    data = AllreduceData(tuple(rows))
    table = tabulate(data)
    assert table.tables["a"].bus_gbit_per_s.tolist() == [[2.0]]
    assert table.source == f"medians of measured all-reduces, fingerprint {data.fingerprint[:12]}"
    west = tabulate(data, {"mine": "a"}, region="west")
    assert west.tables["mine"].bus_gbit_per_s.tolist() == [[9.0]]
    assert west.source.endswith("in west; mine as a")
    with pytest.raises(
        DataError, match="types: a was not measured with 2000 bytes among 2 ranks; learn a model, which"
    ):
        tabulate(data, sizes_bytes=(1000, 2000))
    with pytest.raises(DataError, match="types: 'b' was not measured; known: a"):
        tabulate(data, ["b"])


def test_an_instance_gets_the_bandwidth(learned: LearnedBandwidth) -> None:
    """Types are looked up by their instance type; where one was not measured, the user says what stands for it."""
    instance = read_instance("srift-case3")
    assert isinstance(instance, SriftInstance)
    with pytest.raises(DataError, match=r"types: 'g3.8xlarge' was not measured; did you mean 'p3.8xlarge'"):
        fill_bandwidth(instance, learned)
    with pytest.raises(UsageError, match=r"types: the instance has no VMs of 'g3.8xl'; did you mean 'g3.8xlarge'"):
        fill_bandwidth(instance, learned, {"g3.8xl": "p3.8xlarge"})
    filled = fill_bandwidth(instance, learned, {"g3.8xlarge": "p3.8xlarge", "g4dn.8xlarge": "g4dn.4xlarge"})
    assert isinstance(filled.bandwidth, MeasuredBandwidth)
    assert set(filled.bandwidth.tables) == {"p3.8xlarge", "g3.8xlarge", "g4dn.8xlarge"}
    assert "SYNTHETIC" in filled.bandwidth.source


def test_a_missing_xgboost_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is optional."""
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r'xgboost is not installed; run: pip install "optplan\[learn\]"'):
        require_xgboost()
