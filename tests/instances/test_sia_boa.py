"""BOA instances from the public traces: the figures that the paper and the data's own description give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.formulations.boa.data import BoaInstance
from optplan.formulations.boa.evaluation import path_costs
from optplan.instances.files import read_instance
from optplan.instances.sia_boa import build_sia_instance
from optplan.speedup import TableSpeedup


@pytest.fixture(scope="module")
def newtrace(data_pack: Path) -> BoaInstance:
    """Derive the paper's trace from tables, on T4s."""
    return build_sia_instance(data_pack / "sia/workloads/newtrace/workload-1.csv", data_pack / "sia/traces", "aws")


def _loads(instance: BoaInstance) -> dict[str, float]:
    return {name: c.arrival_rate_per_hour * c.size_gpu_hours for name, c in instance.classes.items()}


def test_the_trace_is_the_papers(newtrace: BoaInstance) -> None:
    """Table 1 of the paper, with YOLOv3 at 36 of 960 jobs = 3.75 %."""
    rates = {name: c.arrival_rate_per_hour * 48 / 960 for name, c in newtrace.classes.items()}
    assert rates == pytest.approx(
        {"cifar10": 0.50417, "bert": 0.21667, "deepspeech2": 0.23542, "yolov3": 0.0375, "imagenet": 0.00625}, abs=1e-5
    )


def test_sizes_are_those_of_the_data_readme(newtrace: BoaInstance) -> None:
    """Section 1.7: hours of a whole job on one T4; the load is the rates times these, 73.213 GPUs."""
    sizes = {name: c.size_gpu_hours for name, c in newtrace.classes.items()}
    assert sizes == pytest.approx(
        {"cifar10": 1.0326, "bert": 3.7593, "deepspeech2": 4.5820, "yolov3": 8.5994, "imagenet": 147.8998}, abs=5e-5
    )
    # 484/48 * 1.03256 + 208/48 * 3.75932 + 226/48 * 4.58203 + 36/48 * 8.59943 + 6/48 * 147.89978
    assert sum(_loads(newtrace).values()) == pytest.approx(73.213, abs=1e-3)


def test_the_fitted_model_gives_the_load_that_schedulers_see(data_pack: Path) -> None:
    """With the fitted goodput model at every width the load is 74.3 GPUs, with first starts 74.6."""
    instance = build_sia_instance(
        data_pack / "sia/workloads/newtrace/workload-1.csv", data_pack / "sia/traces", "aws", timing="model"
    )
    load = sum(_loads(instance).values())
    starts = sum(c.arrival_rate_per_hour * c.rescale_s / 3600 for c in instance.classes.values())
    assert load == pytest.approx(74.28, abs=0.02)  # the fit's optimum is flat
    assert load + starts == pytest.approx(74.62, abs=0.02)


def test_every_width_says_where_its_number_comes_from(newtrace: BoaInstance) -> None:
    """Measured up to 64 T4s, fitted beyond; widths on which no batch fits are named, not guessed."""
    curve = newtrace.classes["cifar10"].speedup["t4"]
    assert isinstance(curve, TableSpeedup)
    assert curve.provenance is not None
    by_width = dict(zip(curve.gpus.tolist(), curve.provenance, strict=True))
    assert (by_width[4], by_width[65]) == ("measured", "fitted")
    assert newtrace.allowed_widths("deepspeech2")[-1] == 64
    assert "deepspeech2: 64 from 65 GPUs on" in newtrace.source["widths left out"]


def test_slowdown_multiplies_sizes(newtrace: BoaInstance, data_pack: Path) -> None:
    """Sia's factor for cifar10 is 1.8, for the others 1.2."""
    slowed = build_sia_instance(
        data_pack / "sia/workloads/newtrace/workload-1.csv", data_pack / "sia/traces", "aws", slowdown=True, max_width=4
    )
    for name, factor in (("cifar10", 1.8), ("bert", 1.2)):
        assert np.allclose(
            slowed.classes[name].epoch_size_gpu_hours, factor * newtrace.classes[name].epoch_size_gpu_hours
        )


def test_some_applications_can_be_picked(data_pack: Path) -> None:
    """The paper's filterTrace has 918 jobs of three classes; an application without jobs is refused."""
    workload, profiles = data_pack / "sia/workloads/newtrace/workload-1.csv", data_pack / "sia/traces"
    picked = build_sia_instance(
        workload, profiles, "aws", applications=("bert", "cifar10", "deepspeech2"), max_width=8
    )
    assert sum(c.arrival_rate_per_hour for c in picked.classes.values()) * 48 == pytest.approx(918)
    with pytest.raises(DataError, match=r"applications: 'ncf' has no job in workload-1\.csv"):
        build_sia_instance(workload, profiles, "aws", applications=("ncf",), max_width=8)


@pytest.mark.parametrize(
    ("name", "timing"), [("boa-newtrace", "model"), ("boa-newtrace-tables", "tables"), ("boa-philly", "model")]
)
def test_the_library_holds_what_the_reader_derives(name: str, timing: str, data_pack: Path) -> None:
    """To the digits kept: costs of running an epoch agree to 2e-5 with those derived anew from the public data."""
    family = "philly" if "philly" in name else "newtrace"
    derived = build_sia_instance(
        data_pack / f"sia/workloads/{family}/workload-1.csv", data_pack / "sia/traces", "aws", timing=timing
    )
    stored = read_instance(name)
    assert isinstance(stored, BoaInstance)
    for ours, theirs in zip(path_costs(stored), path_costs(derived), strict=True):
        assert ours.name == theirs.name
        assert np.array_equal(ours.nodes, theirs.nodes)
        assert np.allclose(ours.run_value, theirs.run_value, rtol=2e-5, atol=0)
