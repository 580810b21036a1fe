"""``optplan import trace --from sia``: from public files to an instance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Instance
from optplan.instances.files import read_instance

if TYPE_CHECKING:
    from tests.conftest import Runner

NOWHERE = ("import", "trace", "nowhere.csv", "--from", "sia", "--profiles", "nowhere", "--gpu", "aws")


@pytest.fixture
def files(data_pack: Path) -> tuple[str, ...]:
    """Return the options that name the public files; few widths are quick."""
    sia = data_pack / "sia"
    return (
        *("import", "trace", str(sia / "workloads" / "newtrace" / "workload-1.csv"), "--from", "sia"),
        *("--profiles", str(sia / "traces"), "--max-width", "8"),
    )


def test_an_import_writes_an_instance_that_can_be_solved(run: Runner, files: tuple[str, ...], tmp_path: Path) -> None:
    """Trace and profiles become a file with budget and price; solving it by name of the file works."""
    path = tmp_path / "mine.json"
    told = run(
        *(*files, "--gpu", "aws", "--span", "48h", "--budget", "90gpu", "--price", "23.472usd/day"),
        *("--price-source", "a list", "--name", "mine", "-o", path),
    )
    assert told.code == 0
    assert told.err == f"wrote {path}\n"
    assert "bert" in told.out
    data = read_instance(path).to_json_data()
    assert (data["name"], data["budget"]) == ("mine", "90gpu")
    # 23.472 a day is 0.978 an hour.
    assert data["gpu_types"]["t4"]["price_usd_per_hour"] == pytest.approx(0.978)
    assert data["gpu_types"]["t4"]["price_source"] == "a list"
    # 960 jobs in 48 hours.
    assert sum(job["arrival_rate_per_hour"] for job in data["classes"].values()) == pytest.approx(20.0)
    assert run("solve", path).code == 0


def test_an_import_as_json(run: Runner, files: tuple[str, ...]) -> None:
    """--json prints the instance; the factor for run times applies to sizes only when asked."""
    plain = run(*files, "--gpu", "aws", "--json")
    slow = run(*files, "--gpu", "aws", "--slowdown", "--json")
    assert (plain.code, slow.code) == (0, 0)
    assert plain.data["source"]["slowdown"] == "not applied"
    assert slow.data["source"]["slowdown"] != "not applied"
    assert "budget" not in plain.data


def test_options_reach_the_import(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option becomes the argument of its name, durations in hours."""
    given: dict[str, object] = {}

    def build(*paths: object, **options: object) -> Instance:
        given.update(options, paths=paths)
        return read_instance("boa-one-table")

    monkeypatch.setattr("optplan.lab.traces.sia_boa.build_sia_instance", build)
    told = run(
        *(*NOWHERE, "--span", "90min", "--max-width", "16", "--timing", "model", "--slowdown", "--json"),
        *("--class", "bert", "--class", "yolov3"),
    )
    assert told.code == 0
    assert given.pop("paths") == (Path("nowhere.csv"), Path("nowhere"), ("aws",))
    assert given == {
        "max_width": 16,
        "slowdown": True,
        "timing": "model",
        "span_h": 1.5,
        "applications": ("bert", "yolov3"),
    }


def test_several_gpu_types(run: Runner, files: tuple[str, ...], tmp_path: Path) -> None:
    """Each with its price and its widths; the budget may be money."""
    path = tmp_path / "mine.json"
    told = run(
        *(*files[:-2], "--gpu", "aws", "--gpu", "rtx", "--max-width", "aws=4", "--max-width", "rtx=2"),
        *("--price", "t4=0.978usd/hour", "--price", "rtx-2080-ti=0.69usd/hour", "--budget", "90usd/hour", "-o", path),
    )
    assert (told.code, told.err) == (0, f"wrote {path}\n")
    data = read_instance(path).to_json_data()
    prices = {name: gpu_type["price_usd_per_hour"] for name, gpu_type in data["gpu_types"].items()}
    assert prices == pytest.approx({"t4": 0.978, "rtx-2080-ti": 0.69})
    widths = {name: curve["gpus"] for name, curve in data["classes"]["bert"]["speedup"].items()}
    assert widths == {"t4": [1, 2, 3, 4], "rtx-2080-ti": [1, 2]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", "1usd/hour"], "--price: there are several GPU types; say of which one, as in t4=0.978usd/hour"),
        (["--price", "t5=1usd/hour"], "--price: no GPU type 't5'; known: t4, rtx-2080-ti"),
    ],
)
def test_prices_of_several_types(run: Runner, files: tuple[str, ...], options: list[str], message: str) -> None:
    """A price has to say of what."""
    told = run(*files, "--gpu", "aws", "--gpu", "rtx", *options, "--json")
    assert (told.code, told.out) == (2, "")
    assert message in told.error["message"]


def test_an_unknown_gpu(run: Runner, files: tuple[str, ...]) -> None:
    """The profiles that exist are named."""
    told = run(*files, "--gpu", "awss", "--json")
    assert (told.code, told.out) == (1, "")
    assert "'awss'" in told.error["message"]
    assert "aws, azure" in told.error["message"]


def test_an_import_needs_somewhere_to_go(run: Runner) -> None:
    """Without -o and without --json there would be no instance."""
    told = run(*NOWHERE)
    assert (told.code, told.out) == (2, "")
    assert "--out: say where to write the instance, as in -o mine.json, or give --json for stdout" in told.err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--json"], 1, "nowhere.csv"),
        (["--json", "--span", "48"], 2, "--span: '48' has no known unit of time"),
        (["--json", "--price", "3gpu"], 2, "--price: got '3gpu'; money for an hour, a day or a month is needed"),
        (["--json", "--price", "1usd/day", "--price", "2usd/day"], 2, "--price: two values are given; give one"),
        (["--json", "--max-width", "x"], 2, "--max-width: got 'x'; a number of GPUs of at least 1 is needed, as in 64"),
        (["--json", "--max-width", "rtx=0"], 2, "--max-width: got 'rtx=0'; a number of GPUs of at least 1 is needed"),
        (
            ["--json", "--max-width", "8", "--max-width", "rtx=4"],
            2,
            "--max-width: got 8 and rtx=4; give one for all GPU",
        ),
        (["--json", "--timing", "tabels"], 2, "--timing: no timing 'tabels'; did you mean 'tables'?"),
    ],
)
def test_wrong_options(run: Runner, options: list[str], code: int, message: str) -> None:
    """Files that are not there are the data's fault, values without sense the call's."""
    told = run(*NOWHERE, *options)
    assert (told.code, told.out) == (code, "")
    assert message in told.error["message"]


def test_an_existing_file_is_refused_first(run: Runner, tmp_path: Path) -> None:
    """Nothing is read when the output exists."""
    path = tmp_path / "mine.json"
    path.write_text("kept", encoding="utf-8")
    told = run(*NOWHERE, "-o", path)
    assert told.code == 1
    assert f"--out: {path} exists" in told.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--span", "1h"),
            "the last job arrives at 47.9455 h, after the span of 1 h (given by the caller); give a longer",
        ),
        (
            ("--gpu", "rtxx"),
            "error: --gpu: no application has a profile for GPU type 'rtxx'; there are profiles for: aws",
        ),
        (("--max-width", "rtx=4"), "error: --max-width: 'rtx' is not imported"),
        (("--class", "brt"), "error: --class: 'brt' has no job in workload-1.csv"),
    ],
)
def test_errors_name_options(run: Runner, files: tuple[str, ...], options: tuple[str, ...], message: str) -> None:
    """What the user typed, and not the parameter that it becomes."""
    gpu = () if options[0] == "--gpu" else ("--gpu", "aws")
    told = run(*files[: -2 if options[0] == "--max-width" else None], *gpu, *options, "--json")
    assert told.code in (1, 2)
    assert message.removeprefix("error: ") in told.error["message"]
    assert "span_h" not in told.err
    assert "max_width" not in told.err
