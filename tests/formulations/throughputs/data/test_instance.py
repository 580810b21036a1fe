"""Instances of measured speeds: what they say of themselves, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from optplan.errors import DataError
from optplan.formulations.throughputs.data import ThroughputsInstance

MakeInstance = Callable[..., ThroughputsInstance]
_ROW = {"type": "small", "vms": 1, "samples_per_s": 100}


def test_rows_become_tables_by_type_and_configuration(make_instance: MakeInstance) -> None:
    """In the order of rows, each by ascending number of VMs, whatever order it was given in."""
    tables = make_instance().tables
    assert list(tables) == [("small", ""), ("large", "dp8"), ("large", "tp8"), ("large", "tp8 pp2")]
    assert tables["small", ""] == {1: 100.0, 2: 190.0, 4: 350.0}
    turned = make_instance(measurements=[_ROW | {"vms": vms} for vms in (4, 1, 2)], types={"small": _PRICED})
    assert list(turned.tables["small", ""]) == [1, 2, 4]


_PRICED = {"price_usd_per_hour": 0.5}


def test_how_coarse_an_answer_is_stands_beside_it(make_instance: MakeInstance) -> None:
    """Between measured numbers interpolated or not considered, beyond them never; and what spot VMs are counted on."""
    assert make_instance().cautions == (
        "coarse, from 6 measured speeds: numbers of VMs between measured ones are not considered (interpolate: true "
        "changes that), beyond them not considered",
    )
    spot = {"small": {"price_usd_per_hour": 0.5, "spot": True}, "large": {"price_usd_per_hour": 3.0}}
    coarse, taken = make_instance(interpolate=True, types=spot).cautions
    assert coarse.endswith("numbers of VMs between measured ones are interpolated, beyond them not considered")
    assert taken == "small: spot VMs, planned as if none were ever taken back"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"measurements": []}, "measurements: is empty; give at least one"),
        ({"measurements": [_ROW | {"type": "smal"}]}, "measurements.0.type: got 'smal'; did you mean 'small'?"),
        (
            {"measurements": [_ROW, _ROW | {"samples_per_s": 110}]},
            "measurements.1: has the type, VMs and configuration of measurements.0; keep one of them, or their mean",
        ),
        ({"measurements": [_ROW]}, "types: has large, of which there are no measurements; measure, or leave the types"),
        (
            {"measurements": [_ROW | {"vms": 0}]},
            "measurements.0.vms: got 0; input should be greater than or equal to 1",
        ),
        ({"measurements": [_ROW | {"samples_per_s": 0}]}, "measurements.0.samples_per_s: got 0"),
        ({"samples": 0}, "samples: got 0; input should be greater than 0"),
        ({"budget": "3gpu"}, "budget: got '3gpu'; the budget is money in all, as in 25usd"),
    ],
)
def test_wrong_instances(make_instance: MakeInstance, fields: dict[str, Any], message: str) -> None:
    """Each mistake is named with the field, the value, what is allowed and what to do."""
    with pytest.raises(DataError, match=re.escape(message)):
        make_instance(**fields)
