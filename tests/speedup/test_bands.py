"""How wrong a speedup may be: its error, and the band that follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.speedup import AmdahlSpeedup, Evidence, PowerSpeedup, SpeedupCurve, TableSpeedup
from optplan.speedup.curves import find_weakest, read_provenance

TABLE: dict[str, Any] = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]}


def list_band(curve: SpeedupCurve, widths: list[int], reference_width: int = 1) -> list[list[float]]:
    """Return low and high of the first epoch."""
    low, high = curve.band_at(np.array(widths), reference_width)
    assert low.shape == high.shape == curve.at(np.array(widths)).shape
    return [low[0].tolist(), high[0].tolist()]


def test_one_error_of_a_table_holds_at_all_widths_but_the_reference() -> None:
    """25 %: 1.8 lies within 1.8 / 1.25 = 1.44 and 2.25, 3 within 2.4 and 3.75, and 1 is 1 by definition."""
    curve = TableSpeedup(gpus=[1, 2, 4], speedup=[1.0, 1.8, 3.0], error=0.25)
    assert list_band(curve, [1, 2, 4]) == [[1.0, pytest.approx(1.44), 2.4], [1.0, 2.25, 3.75]]
    assert list_band(curve, [4, 1], reference_width=4) == [[3.0, 0.8], [3.0, 1.25]]


def test_an_error_for_each_width_holds_at_its_own() -> None:
    """0, 20 and 50 %, in both epochs: 2 within 1.667 and 2.4, 3 and 4 within 2 to 4.5 and 2.667 to 6."""
    curve = TableSpeedup(gpus=[1, 2, 4], speedup=[[1, 2, 3], [1, 2, 4]], error=[0, 0.2, 0.5])
    low, high = curve.band_at(np.array([4, 2, 1]), 1)
    assert low == pytest.approx(np.array([[2, 2 / 1.2, 1], [4 / 1.5, 2 / 1.2, 1]]))
    assert high == pytest.approx(np.array([[4.5, 2.4, 1], [6, 2.4, 1]]))


def test_the_error_of_a_law_is_for_each_doubling_from_the_reference_width() -> None:
    """Of sqrt(k), 10 %: at 4 GPUs 2 / 1.21 to 2.42; seen from 4 GPUs, one GPU is two doublings away, and 8 one."""
    curve = PowerSpeedup(exponent=0.5, error=0.1)
    assert list_band(curve, [1, 4]) == [[1.0, pytest.approx(2 / 1.21)], [1.0, pytest.approx(2.42)]]
    assert list_band(curve, [1, 8], 4)[1] == [pytest.approx(1.21), pytest.approx(8**0.5 * 1.1)]
    assert AmdahlSpeedup(serial_fraction=1.0, error=1.0).band_at(np.array([8]), 1)[1].tolist() == [[8.0]]


@pytest.mark.parametrize("evidence", ["measured", "fitted", "card", None])
def test_what_says_no_error_counts_as_exact(evidence: str | None) -> None:
    """All but what is assumed."""
    assert list_band(PowerSpeedup(exponent=0.5, evidence=evidence), [1, 4]) == [[1.0, 2.0]] * 2
    assert list_band(TableSpeedup.parse({**TABLE, "provenance": evidence}), [2, 4]) == [[1.8, 3.0]] * 2


def test_what_is_assumed_has_from_none_of_the_gain_to_all_of_it() -> None:
    """At 8 GPUs 1 to 8; from 4 GPUs, 1 to 2 at 8, and one GPU a quarter as fast to as fast; a stated error counts."""
    curve = AmdahlSpeedup(serial_fraction=0.5, evidence="assumed")
    assert list_band(curve, [1, 2, 8]) == [[1.0, 1.0, 1.0], [1.0, 2.0, 8.0]]
    wide = TableSpeedup(gpus=[1, 4, 8], speedup=[0.4, 1.0, 1.7], provenance=("assumed", "measured", "assumed"))
    assert list_band(wide, [1, 4, 8], 4) == [[0.25, 1.0, 1.0], [1.0, 1.0, 2.0]]
    beyond = TableSpeedup(gpus=[1, 2, 4], speedup=[1.0, 2.5, 0.9], provenance="assumed")
    assert list_band(beyond, [2, 4]) == [[1.0, 0.9], [2.5, 4.0]]
    assert list_band(curve.replace(error=0.0), [8]) == [[pytest.approx(16 / 9)]] * 2


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (-0.1, r"^error: got -0\.1; numbers from 0 to 1000 are allowed"),
        ([0, 0.1, 1001], r"^error: entry \[2\]: got 1001\.0; numbers from 0 to 1000 are allowed"),
        ([0, 0.1], r"^error: got an array of shape \(2,\) for 3 widths; give a number, or one per width"),
        ("10 %", r"^error: got '10 %'; a number or a list of numbers is needed"),
    ],
)
def test_errors_of_tables_that_are_refused(error: object, message: str) -> None:
    """Field, value, and what is allowed."""
    with pytest.raises(DataError, match=message):
        TableSpeedup.parse({**TABLE, "error": error})


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (-0.1, r"^error: got -0\.1; input should be greater than or equal to 0"),
        (1.5, r"^error: got 1\.5; input should be less than or equal to 1"),
        ([0.1], r"^error: got \[0\.1\]; input should be a valid number"),
        (True, r"^error: got True; a number is needed"),
    ],
)
def test_errors_of_laws_that_are_refused(error: object, message: str) -> None:
    """One number from nothing to a factor of two for each doubling, which is from no gain to all of it."""
    with pytest.raises(DataError, match=message):
        PowerSpeedup.parse({"exponent": 0.5, "error": error})


def test_the_reference_width_has_no_error() -> None:
    """The speedup there is 1 by definition."""
    fields = {
        "arrival_rate_per_hour": 1.0,
        "epoch_size_gpu_hours": [1.0],
        "speedup": {"t4": {**TABLE, "error": [0.1] * 3}},
    }
    instance = {"formulation": "boa", "gpu_types": {"t4": {}}, "classes": {"a": fields}, "budget": "8gpu"}
    with pytest.raises(
        DataError, match=r"a\.speedup\.t4\.error: got 0\.1 at 1 GPU\(s\), where .* error; write 0 there"
    ):
        BoaInstance.parse(instance)


def test_curves_without_an_error_are_what_they_were() -> None:
    """The field is neither written nor hashed where it is not said: these hashes were made before it was there."""
    curves = [TableSpeedup.parse(TABLE), PowerSpeedup(exponent=0.5, evidence="fitted")]
    assert all("error" not in curve.to_json_data() for curve in curves)
    assert [curve.content_hash()[:12] for curve in curves] == ["4571190dfd49", "5c713082d985"]
    assert curves[0].replace(error=0.1).content_hash() != curves[0].content_hash()


def test_cards_say_less_than_fits_and_more_than_nothing() -> None:
    """From what says most to what says least: measured, fitted, card, not said, assumed."""
    assert read_provenance("card") == Evidence.CARD.value
    assert find_weakest(["measured", "card", "fitted"]) == "card"
    assert find_weakest(["card", "not said"]) == "not said"
