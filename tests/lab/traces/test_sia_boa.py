"""BOA instances from the public traces: the figures that the paper and the data's own description give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optplan.errors import DataError, DataWarning
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.catalog import read_price_list
from optplan.instances.files import read_instance
from optplan.lab.traces.sia_boa import build_sia_instance, name_gpu
from optplan.speedup import TableSpeedup

#: Most traces here are made up, of one job or two.
pytestmark = pytest.mark.filterwarnings("ignore:classes.* rests on:optplan.errors.DataWarning")


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
    picked = build_sia_instance(workload, profiles, "aws", applications=("bert", "cifar10", "deepspeech2"), max_width=8)
    assert sum(c.arrival_rate_per_hour for c in picked.classes.values()) * 48 == pytest.approx(918)
    with pytest.raises(DataError, match=r"applications: 'ncf' has no job in workload-1\.csv"):
        build_sia_instance(workload, profiles, "aws", applications=("ncf",), max_width=8)


#: Suffix, and hours of a whole job on one GPU of it by application (data README, section 1.7).
HOURS = {
    "aws": {"cifar10": 1.0326, "bert": 3.7593, "deepspeech2": 4.5820, "yolov3": 8.5994, "imagenet": 147.8998},
    "rtx": {"cifar10": 0.5013, "bert": 1.8236, "deepspeech2": 2.6945, "yolov3": 16.9731, "imagenet": 74.1821},
    "dgx-ext": {"cifar10": 0.1947, "bert": 0.3542, "deepspeech2": 2.4524, "yolov3": 3.3632, "imagenet": 33.4257},
}
#: Speedup of whole jobs at 8 GPUs of that type over one of it (same section).
AT_EIGHT = {
    "aws": {"cifar10": 4.947, "bert": 5.502, "deepspeech2": 5.121, "yolov3": 2.214, "imagenet": 6.627},
    "rtx": {"cifar10": 5.287, "bert": 6.429, "deepspeech2": 4.880, "yolov3": 6.382, "imagenet": 6.441},
    "dgx-ext": {"cifar10": 5.268, "bert": 7.787, "deepspeech2": 4.507, "yolov3": 2.184, "imagenet": 6.233},
}
CAPS = {"aws": 64, "rtx": 24, "dgx-ext": 16}


def _import(data_pack: Path, *gpus: str, **options: Any) -> BoaInstance:  # noqa: ANN401 - as given
    workload = data_pack / "sia/workloads/newtrace/workload-1.csv"
    return build_sia_instance(workload, data_pack / "sia/traces", gpus, **({"max_width": 8} | options))


def _hours(instance: BoaInstance, name: str, gpu_type: str, width: int) -> float:
    """Return the hours of a whole job on that many GPUs."""
    curve = instance.classes[name].speedup[gpu_type]
    return float((instance.classes[name].epoch_size_gpu_hours / curve.at(np.array([width]))[:, 0]).sum())


@pytest.fixture(scope="module")
def three(data_pack: Path) -> BoaInstance:
    """Derive the paper's trace on three types, as far as they were profiled."""
    return _import(data_pack, *CAPS, max_width=CAPS)


@pytest.mark.parametrize("suffix", list(HOURS))
def test_times_on_every_type_are_those_of_the_data_readme(three: BoaInstance, suffix: str) -> None:
    """Size over speedup on one GPU and on eight of each type: section 1.7, whatever the reference."""
    for name, hours in HOURS[suffix].items():
        alone = _hours(three, name, name_gpu(suffix), 1)
        assert alone == pytest.approx(hours, abs=5e-5)
        assert alone / _hours(three, name, name_gpu(suffix), 8) == pytest.approx(AT_EIGHT[suffix][name], abs=5e-4)


def test_widths_go_as_far_as_each_type_was_profiled(three: BoaInstance) -> None:
    """Nothing on any type rests on the fitted model, and no width is missing."""
    for name in three.classes:
        for suffix, cap in CAPS.items():
            curve = three.classes[name].speedup[name_gpu(suffix)]
            assert isinstance(curve, TableSpeedup)
            assert curve.gpus.tolist() == list(range(1, cap + 1))
            assert curve.provenance is not None
            assert "fitted" not in curve.provenance
    assert three.source["widths"] == "t4 to 64, rtx-2080-ti to 24, a100 to 16"
    assert three.source["sizes and speedups"] == "relative to one GPU of t4 (suffix aws)"
    assert three.name == "workload-1-aws-rtx-dgx-ext"


@pytest.mark.parametrize("others", [(), ("rtx",), ("dgx-ext", "rtx"), ("quad",)])
def test_the_reference_does_not_depend_on_the_other_types(data_pack: Path, others: tuple[str, ...]) -> None:
    """Sizes and speedups on the first type are those of an import of it alone, bit by bit."""
    alone, several = (
        _import(data_pack, "aws"),
        _import(data_pack, "aws", *others, max_width={"aws": 8, **dict.fromkeys(others, 4)}),
    )
    for name, job_class in several.classes.items():
        ours, theirs = job_class.speedup["t4"], alone.classes[name].speedup["t4"]
        assert isinstance(ours, TableSpeedup)
        assert isinstance(theirs, TableSpeedup)
        assert np.array_equal(job_class.epoch_size_gpu_hours, alone.classes[name].epoch_size_gpu_hours)
        assert np.array_equal(ours.speedup, theirs.speedup)
        assert len(job_class.speedup) == 1 + len(others)


def test_times_do_not_depend_on_the_reference(data_pack: Path) -> None:
    """Whatever type comes first, a job takes as long on each; with Sia's slowdown, longer by the same factor on all."""
    first, second = _import(data_pack, "aws", "dgx-ext"), _import(data_pack, "dgx-ext", "aws")
    slowed = _import(data_pack, "dgx-ext", "aws", slowdown=True)
    for gpu_type in ("t4", "a100"):
        for width in (1, 3, 8):
            for name in first.classes:
                hours = _hours(first, name, gpu_type, width)
                assert _hours(second, name, gpu_type, width) == pytest.approx(hours, rel=1e-8)
                factor = 1.8 if name == "cifar10" else 1.2
                assert _hours(slowed, name, gpu_type, width) == pytest.approx(factor * hours, rel=1e-8)


@pytest.mark.parametrize(
    ("gpus", "options", "message"),
    [
        ((), {}, r"^gpu: is empty; name at least one type of GPU, such as aws$"),
        (("aws", "aws"), {}, r"^gpu: 'aws' is given twice; name each type once$"),
        (
            ("aws", "rtxx"),
            {},
            r"^gpu: no application has a profile for GPU type 'rtxx'; there are profiles for: aws, azu",
        ),
        (("aws",), {"max_width": {"awz": 4}}, r"^max_width: 'awz' is not imported; did you mean 'aws'\?$"),
    ],
)
def test_wrong_types(data_pack: Path, gpus: tuple[str, ...], options: dict[str, Any], message: str) -> None:
    """Suffixes that nobody has, or twice."""
    with pytest.raises(DataError, match=message):
        _import(data_pack, *gpus, **options)


def _write_profile(folder: Path, application: str, gpu: str, rows: Sequence[tuple[str, int, float]]) -> None:
    """Write step times by placement and local batch, without synchronisation, and an empty scalability table."""
    there = folder / application
    there.mkdir(parents=True, exist_ok=True)
    lines = [f"{placement},{batch},{time_s},0" for placement, batch, time_s in rows]
    (there / f"placements-{gpu}.csv").write_text("\n".join(("placement,local_bsz,step_time,sync_time", *lines)) + "\n")
    (there / f"scalability-{gpu}.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n")


@pytest.fixture
def made_up(tmp_path: Path) -> tuple[Path, Path]:
    """Return a workload of one job each, and profiles of them on "quick" GPUs, twice as fast as "slow" ones.

    A larger batch gains nothing, so each runs at its smallest: bert 12 samples in 1.2 s on one slow GPU and in 0.8 s on
    two, over epochs of 10 and 20 iterations.
    """
    workload, profiles = tmp_path / "made" / "jobs.csv", tmp_path / "profiles"
    workload.parent.mkdir()
    jobs = ("bert-0,0,bert,1,12", "ncf-0,60,ncf,1,256")
    workload.write_text("\n".join(("name,time,application,num_replicas,batch_size", *jobs)) + "\n", encoding="utf-8")
    for gpu, factor in (("slow", 1.0), ("quick", 0.5)):
        _write_profile(
            profiles,
            "bert",
            gpu,
            [("1", 6, 0.6 * factor), ("1", 48, 4.8 * factor), ("2", 6, 0.8 * factor), ("2", 48, 5.0 * factor)],
        )
        _write_profile(profiles, "ncf", gpu, [("1", 128, factor), ("1", 512, factor)])
    for application, sizes, epochs in (("bert", (12, 384), 2), ("ncf", (256, 32768), 10)):
        for size in sizes:
            rows = [f"{10 * e * (e + 1) // 2},{5 * e},0.5,1,0" for e in range(1, epochs + 1)]
            text = "\n".join(("progress,iteration,metric,grad_sqr,grad_var", *rows)) + "\n"
            (profiles / application / f"validation-{size}.csv").write_text(text, encoding="utf-8")
    return workload, profiles


def test_two_types_by_hand(made_up: tuple[Path, Path]) -> None:
    """12 and 24 s on one slow GPU; a quick one does it in half, two of them in a third: s = 2 and 3."""
    instance = build_sia_instance(*made_up, ("slow", "quick"), max_width=2)
    bert = instance.classes["bert"]
    assert bert.epoch_size_gpu_hours * 3600 == pytest.approx([12.0, 24.0])
    assert bert.speedup["slow"].at(np.array([1, 2])) == pytest.approx(np.array([[1.0, 1.5]] * 2))
    assert bert.speedup["quick"].at(np.array([1, 2])) == pytest.approx(np.array([[2.0, 3.0]] * 2))
    assert "cannot run" not in instance.source


def test_a_type_without_a_profile_is_absent(made_up: tuple[Path, Path]) -> None:
    """The class runs on the other type, and the source says why; alone, the type is refused."""
    (made_up[1] / "ncf" / "placements-quick.csv").unlink()
    instance = build_sia_instance(*made_up, ("slow", "quick"), max_width=2)
    assert list(instance.classes["ncf"].speedup) == ["slow"]
    assert list(instance.classes["bert"].speedup) == ["slow", "quick"]
    assert instance.source["cannot run"].startswith("ncf on quick: ")
    assert "has no profile for GPU type 'quick'" in instance.source["cannot run"]
    with pytest.raises(DataError, match=r"^gpu: .*ncf has no profile for GPU type 'quick'; it has profiles for: slow$"):
        build_sia_instance(*made_up, "quick", max_width=2)


def test_a_class_that_cannot_run_on_the_first_type_refers_to_the_next(made_up: tuple[Path, Path]) -> None:
    """Its size is the time on that one; the source says so."""
    (made_up[1] / "bert" / "placements-slow.csv").unlink()
    instance = build_sia_instance(*made_up, ("slow", "quick"), max_width=2)
    assert instance.classes["bert"].epoch_size_gpu_hours * 3600 == pytest.approx([6.0, 12.0])
    assert instance.source["sizes and speedups"] == "relative to one GPU of slow (suffix slow); bert to 1 GPU of quick"


def test_an_application_that_needs_two_gpus(made_up: tuple[Path, Path]) -> None:
    """Measured on two quick GPUs only, say for want of memory: one is left out there, and sizes may refer to two."""
    _write_profile(made_up[1], "bert", "quick", [("2", 6, 0.4), ("2", 48, 2.5)])
    bert = build_sia_instance(*made_up, ("slow", "quick"), max_width=2).classes["bert"]
    curve = bert.speedup["quick"]
    assert isinstance(curve, TableSpeedup)
    assert curve.gpus.tolist() == [2]
    assert curve.at(np.array([2])) == pytest.approx(np.array([[3.0]] * 2))
    swapped = build_sia_instance(*made_up, ("quick", "slow"), max_width=2)
    assert swapped.classes["bert"].reference_width == 2
    assert swapped.classes["bert"].epoch_size_gpu_hours * 3600 == pytest.approx([4.0, 8.0])
    assert swapped.classes["bert"].speedup["slow"].at(np.array([1])) == pytest.approx(np.array([[1 / 3]] * 2))
    assert "bert to 2 GPUs of quick" in swapped.source["sizes and speedups"]
    assert "bert on quick: 1 below 2 GPUs" in swapped.source["widths left out"]


def test_an_application_that_can_run_nowhere(made_up: tuple[Path, Path]) -> None:
    """Where even the smallest local batch exceeds the largest batch, on all types: refused, with the reason."""
    for gpu in ("slow", "quick"):
        _write_profile(made_up[1], "bert", gpu, [("1", 400, 1.0), ("1", 500, 1.0)])
    message = r"^widths: none is feasible: bert on 1 GPUs of slow: no batch size splits .*; leave it out, or measure"
    with pytest.raises(DataError, match=message):
        build_sia_instance(*made_up, ("slow", "quick"), max_width=2)


@pytest.mark.parametrize(
    ("name", "timing", "caps"),
    [
        ("boa-newtrace", "model", {"aws": 128}),
        ("boa-newtrace-tables", "tables", {"aws": 128}),
        ("boa-newtrace-slowdown", "tables", {"aws": 128}),
        ("boa-philly", "model", {"aws": 128}),
        ("boa-newtrace-types", "tables", CAPS),
    ],
)
def test_the_library_holds_what_the_reader_derives(
    name: str, timing: str, caps: dict[str, int], data_pack: Path
) -> None:
    """To the digits kept: times of epochs agree to 2e-5 with those derived anew from the public data."""
    family = "philly" if "philly" in name else "newtrace"
    workload = data_pack / f"sia/workloads/{family}/workload-1.csv"
    slow = name.endswith("-slowdown")
    derived = build_sia_instance(
        workload, data_pack / "sia/traces", tuple(caps), timing=timing, max_width=caps, slowdown=slow
    )
    stored = read_instance(name)
    assert isinstance(stored, BoaInstance)
    assert list(stored.classes) == list(derived.classes)
    if slow:
        assert {n: c.arrivals for n, c in stored.classes.items()} == {n: c.arrivals for n, c in derived.classes.items()}
    for each, job_class in stored.classes.items():
        ours, theirs = stored.options(each), derived.options(each)
        assert ours.gpu_types == theirs.gpu_types
        assert np.array_equal(ours.widths, theirs.widths)
        ours_h = job_class.epoch_size_gpu_hours[:, None] / ours.speeds
        theirs_h = derived.classes[each].epoch_size_gpu_hours[:, None] / theirs.speeds
        assert np.allclose(ours_h, theirs_h, rtol=2e-5, atol=0)


def test_quotas_of_the_library_are_sias_cluster() -> None:
    """24 RTX 2080 Ti and 16 A100 (data README, section 1.2); all else is as without quotas."""
    limited, free = read_instance("boa-newtrace-quotas"), read_instance("boa-newtrace-types")
    assert isinstance(limited, BoaInstance)
    assert isinstance(free, BoaInstance)
    assert limited.quotas == {"rtx-2080-ti": 24.0, "a100": 16.0}
    assert free.quotas == {}
    assert limited.to_json_data()["classes"] == free.to_json_data()["classes"]
    unlimited = {name: gpu_type.replace(quota_gpus=None) for name, gpu_type in limited.gpu_types.items()}
    assert unlimited == dict(free.gpu_types)


def test_prices_of_the_library_are_listed_ones(data_pack: Path) -> None:
    """T4 and A100 from AWS's list; nobody lists the 2080 Ti, and its price says whose it is."""
    stored = read_instance("boa-newtrace-types")
    assert isinstance(stored, BoaInstance)
    aws = read_price_list(data_pack / "catalog" / "aws-v8-gpu-us-east-1-us-west-2.csv")
    for gpu_type, instance_type in (("t4", "g4dn.12xlarge"), ("a100", "p4d.24xlarge")):
        listed = aws.price_of(instance_type, "us-east-1")
        assert stored.gpu_types[gpu_type].price_usd_per_hour == listed.price_usd_per_hour
        assert stored.gpu_types[gpu_type].price_date == listed.date
    stand_in = stored.gpu_types["rtx-2080-ti"]
    assert stand_in.price_usd_per_hour == 0.69
    assert stand_in.price_source.startswith("no price list has the RTX 2080 Ti; for it stands the Quadro RTX 6000")
    for path in (data_pack / "catalog").glob("*.csv"):
        assert "2080" not in "".join({offer.gpu for offer in read_price_list(path).offers})


def test_a_rate_that_rests_on_few_jobs_is_warned_of(data_pack: Path) -> None:
    """Four jobs of a workload carry 73.9 of 96 GPUs: were they a Poisson count, the load would be off by 38 %."""
    folder = data_pack / "adaptdl" / "workloads"
    with pytest.warns(DataWarning) as told:
        build_sia_instance(folder / "workload-1.csv", data_pack / "sia/traces", "aws")
    (message,) = (str(each.message) for each in told)
    assert message == (
        "classes.imagenet.arrival_rate_per_hour rests on 4 jobs, and the class carries 73.9 of 96 GPUs; see what other "
        "rates would do, or import a longer trace"
    )


def test_profiles_without_a_suffix_are_of_the_type_that_is_named(data_pack: Path, tmp_path: Path) -> None:
    """AdaptDL's own files have no suffix: the same figures as with one, and the source says who named the type."""
    for folder in (data_pack / "sia" / "traces").iterdir():
        (tmp_path / folder.name).mkdir()
        for path in folder.glob("*.csv"):
            kind, _, suffix = path.stem.partition("-")
            if kind == "validation" or suffix == "aws":
                (tmp_path / folder.name / (path.name if kind == "validation" else f"{kind}.csv")).symlink_to(path)
    workload = data_pack / "sia/workloads/newtrace/workload-1.csv"
    named, unnamed = (build_sia_instance(workload, folder, "aws") for folder in (data_pack / "sia/traces", tmp_path))
    assert unnamed.classes == named.classes
    assert unnamed.source["type of GPU"] == "aws, as given: the profiles do not say it"
    assert "type of GPU" not in named.source
    with pytest.raises(DataError, match=r"^gpu: .* has one profile, without a suffix, and there are 2 types of GPU"):
        build_sia_instance(workload, tmp_path, ("aws", "rtx"))
