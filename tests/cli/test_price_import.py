"""``optplan import prices``: from a price list into an instance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.instances.files import read_instance

if TYPE_CHECKING:
    from tests.conftest import Runner

LIST = (
    "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n"
    "box,V100,8,24.0,8.0,east\n"
    "box,V100,8,28.0,,west\n"
    "single,V100,1,3.5,1.5,west\n"
)


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """Return a small price list whose name says its date."""
    path = tmp_path / "cloud-2026-05.csv"
    path.write_text(LIST, encoding="utf-8")
    return path


@pytest.fixture
def command(catalog: Path, write_instance: Callable[..., Path]) -> tuple[str, ...]:
    """Return the command on the textbook instance on V100s."""
    return ("import", "prices", str(write_instance()), "--catalog", str(catalog))


def test_prices_are_filled_in(run: Runner, command: tuple[str, ...], tmp_path: Path) -> None:
    """24 dollars for eight are 3 for one; the file says who says so, and when."""
    path = tmp_path / "priced.json"
    told = run(*command, "--vm-type", "v100=box", "--region", "east", "--budget", "6usd/hour", "-o", path)
    assert (told.code, told.err) == (0, f"wrote {path}\n")
    assert "$3.00 an hour" in told.out
    data = read_instance(path).to_json_data()
    assert data["budget"] == "6usd/hour"
    assert data["gpu_types"]["v100"] == {
        "price_usd_per_hour": 3.0,
        "price_source": ("cloud on-demand list price of box (8 x V100), 24 USD/h in east, divided by 8"),
        "price_date": "2026-05",
    }
    assert run("solve", path).code == 0


def test_spot_prices_and_dates(run: Runner, command: tuple[str, ...]) -> None:
    """8 dollars for eight as spot, with a word on interruptions; a date that is given counts."""
    told = run(*command, "--vm-type", "v100=box", "--spot", "v100", "--date", "May", "--name", "spot", "--json")
    assert told.code == 0
    v100 = told.data["gpu_types"]["v100"]
    assert (told.data["name"], v100["price_usd_per_hour"], v100["price_date"]) == ("spot", 1.0, "May")
    assert v100["price_source"].startswith("cloud spot price of box")
    assert "warning: gpu_types.v100: a spot price" in told.err


def test_a_gpu_by_its_own_name(run: Runner, command: tuple[str, ...]) -> None:
    """The cheapest per GPU: in the west, two V100 boxes are 3.5 each a GPU, and the smaller is taken."""
    told = run(*command, "--vm-type", "v100=V100", "--region", "west", "--json")
    assert told.data["gpu_types"]["v100"]["price_source"].startswith("cloud on-demand list price of single (1 x V100)")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--vm-type", "v100"), 2, "--vm-type: got 'v100'; a GPU type and its name in the list are needed"),
        (("--vm-type", "v10=box"), 2, "--vm-type: no GPU type 'v10'; did you mean 'v100'?"),
        (
            ("--vm-type", "v100=box", "--vm-type", "v100=single"),
            2,
            "--vm-type: two values for 'v100' are given; give one",
        ),
        (("--vm-type", "v100=box", "--spot", "t4"), 2, "--spot: no GPU type 't4'; known: v100"),
        (("--vm-type", "v100=bix"), 1, "has no instance type or GPU 'bix'; did you mean 'box'?"),
        (("--vm-type", "v100=box", "--region", "north"), 1, "in region 'north'; there is one in: east, west"),
        (("--vm-type", "v100=box", "--region", "west", "--spot", "v100"), 1, "no spot price of box is listed"),
    ],
)
def test_wrong_options(
    run: Runner, command: tuple[str, ...], options: tuple[str, ...], code: int, message: str
) -> None:
    """Names of the call are the call's fault, those that the list does not have the data's."""
    told = run(*command, *options, "--json")
    assert (told.code, told.out) == (code, "")
    assert message in told.error["message"]


def test_somewhere_to_go(run: Runner, command: tuple[str, ...]) -> None:
    """As for every import."""
    told = run(*command, "--vm-type", "v100=box")
    assert (told.code, told.out) == (2, "")
    assert "--out: say where to write the instance" in told.err


def test_prices_that_ship(run: Runner, write_instance: Callable[..., Path]) -> None:
    """Without a list those of the package are taken, by instance type or by provider and GPU."""
    command = ("import", "prices", write_instance(), "--json", "--vm-type")
    told = run(*command, "v100=p3.2xlarge", "--region", "us-west-2", "--spot", "v100")
    assert told.data["gpu_types"]["v100"]["price_source"].startswith("AWS spot price of p3.2xlarge (1 x V100), ")
    told = run(*command, "v100=google:V100")
    assert told.data["gpu_types"]["v100"]["price_usd_per_hour"] == 2.48
    assert told.data["gpu_types"]["v100"]["price_date"] == "2026-05"
    assert "--date: has a meaning with --catalog only" in run(*command, "v100=google:V100", "--date", "May").err
    assert "ask for a spot price by --spot TYPE" in run(*command, "v100=google:V100:spot").err
    assert (
        "'V100' is in the shipped prices of aws, azure, google, lambda, shadeform; say"
        in run(*command, "v100=V100").err
    )


def test_a_price_that_ships_by_its_name(run: Runner, tmp_path: Path) -> None:
    """``--price`` takes money or a name, for an import of jobs too."""
    log = tmp_path / "log.csv"
    log.write_text("submit,hours,gpus\n" + "".join(f"2026-03-{d:02d},1,2\n" for d in range(1, 29)), encoding="utf-8")
    command = ("import", "log", log, "--from", "csv", "--yes", "--assume", "linear", "--json", "--price")
    told = run(*command, "aws:p4d.24xlarge@us-east-1")
    assert told.data["gpu_types"]["gpu"]["price_usd_per_hour"] == pytest.approx(21.9576 / 8)
    spot = run(*command, "aws:p4d.24xlarge@us-east-1:spot")
    assert spot.data["gpu_types"]["gpu"]["price_source"].startswith("AWS spot price of p4d.24xlarge")
    assert "warning: gpu_types.gpu: a spot price" in spot.err
    prices = tmp_path / "vast-2026-05.csv"
    prices.write_text(LIST, encoding="utf-8")
    listed = run(*command, f"{prices}:v100@east").data["gpu_types"]["gpu"]
    assert (listed["price_usd_per_hour"], listed["price_date"]) == (3.0, "2026-05")
    assert listed["price_source"].startswith("Vast.ai on-demand list price of box")
    assert "--price: 'awz' ships no prices; did you mean 'aws'?" in run(*command, "awz:x").err
