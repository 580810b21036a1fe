"""``optplan import prices`` into the cloud of a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

CATALOG = (
    "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,AvailabilityZone\n"
    "g4dn.12xlarge,T4,4.0,3.912,1.5,us-east-1,use1-az1\n"
)
SEARCH = {
    "name": "mine",
    "formulation": "rubberband",
    "experiment": {"form": "stages", "stages": [{"trials": 2, "iterations": 10}]},
    "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0}},
    "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 1.0},
    "deadline_s": 300.0,
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Write a search and a price list."""
    search, catalog = tmp_path / "search.json", tmp_path / "aws-2026-05.csv"
    search.write_text(json.dumps(SEARCH), encoding="utf-8")
    catalog.write_text(CATALOG, encoding="utf-8")
    return search, catalog


def test_the_row_fills_the_cloud(run: Runner, files: tuple[Path, Path]) -> None:
    """Price of the whole instance, its GPUs, its region, the source and the date; the rest stays."""
    search, catalog = files
    told = run("import", "prices", search, "--catalog", catalog, "--vm-type", "g4dn.12xlarge", "--json")
    cloud = told.data["cloud"]
    assert (cloud["price_usd_per_hour"], cloud["gpus_per_instance"]) == (3.912, 4)
    assert (cloud["instance_type"], cloud["region"], cloud["price_date"]) == ("g4dn.12xlarge", "us-east-1", "2026-05")
    assert "on-demand list price of g4dn.12xlarge (4 x T4), 3.912 USD/h in us-east-1" in cloud["price_source"]
    assert "divided" not in cloud["price_source"]
    assert told.data["deadline_s"] == 300.0


@pytest.mark.parametrize("asked", [("--vm-type", "t4=g4dn.12xlarge"), ("--vm-type", "T4", "--spot", "t4")])
def test_a_search_has_one_type_on_demand(run: Runner, files: tuple[Path, Path], asked: tuple[str, ...]) -> None:
    """Neither names of GPU types nor spot prices fit."""
    search, catalog = files
    told = run("import", "prices", search, "--catalog", catalog, *asked, "--json")
    assert told.code == 2
    assert "--vm-type: a search has one type of VM; give its name alone, as in g4dn.12xlarge" in told.err


def test_boa_needs_the_gpu_type(run: Runner, files: tuple[Path, Path]) -> None:
    """A name alone says nothing about which type it prices."""
    _, catalog = files
    told = run("import", "prices", "boa-two-classes", "--catalog", catalog, "--vm-type", "g4dn.12xlarge", "--json")
    assert told.code == 2
    assert "got 'g4dn.12xlarge'; a GPU type and its name in the list are needed, as in t4=g4dn.xlarge" in told.err
