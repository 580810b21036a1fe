"""``optplan simulate starts``: figures by hand, files, and what is wrong."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

HEAD = "name,time,application,num_replicas,batch_size\n"


@pytest.fixture
def asked(data_pack: Path, tmp_path: Path) -> tuple[str, ...]:
    """Write a trace of a job at 20:00 and another at midnight, and prices: 1 dollar before noon, 3 after it."""
    trace, prices = tmp_path / "trace.csv", tmp_path / "hours.csv"
    trace.write_text(f"{HEAD}a,0,cifar10,2,256\nb,14400,cifar10,2,256\n")
    prices.write_text("hour,usd_per_gpu_hour\n" + "".join(f"{hour},{1 if hour < 12 else 3}\n" for hour in range(24)))
    profiles = ("--profiles", str(data_pack / "sia" / "traces"), "--policy", "one-width:2", "--first-hour", "20")
    return ("simulate", "starts", str(trace), *profiles, "--prices", str(prices))


def test_figures_by_hand(run: Runner, asked: tuple[str, ...]) -> None:
    """Each job holds 2 GPUs for 0.6 h: the first costs a third if it waits 4 h, which saves 0.6 dollars an hour."""
    options = ("--may-wait", "cifar10=6h", "--hour-worth", "0.7usd/hour", "--hour-worth", "0.5usd/hour")
    told = run(*asked, *options, "--json")
    assert told.code == 0
    hours = 50 / 3600 + 1.0326 / 1.757
    figures = {each["rule"]: (each["cost_usd"], each["mean_wait_s"]) for each in told.data["rules"]}
    now, later = (pytest.approx((2 * hours * usd, wait_s), rel=1e-3) for usd, wait_s in ((4.0, 0.0), (2.0, 7200.0)))
    assert figures == {
        "at once": now,
        "at $1 or less": later,
        "an hour worth $0.7": now,
        "an hour worth $0.5": later,
        "least cost": later,
    }
    last = told.data["rules"][-1]
    assert last["mean_jct_s"] == pytest.approx(7200 + 3600 * hours, rel=1e-3)
    # A node of 4 GPUs is rented for 2, except where both jobs share it, from midnight on.
    assert last["node_cost_usd"] == pytest.approx(last["cost_usd"])
    assert told.data["rules"][0]["node_cost_usd"] == pytest.approx(2 * told.data["rules"][0]["cost_usd"])
    assert [point["mean_wait_s"] for point in told.data["trade_off"]] == [0.0, 7200.0]
    assert told.data["trade_off"][1]["saved_usd_per_hour_waited"] == pytest.approx(hours, rel=1e-3)


def test_a_threshold_that_is_given(run: Runner, asked: tuple[str, ...]) -> None:
    """3 dollars are never exceeded, so nobody waits; half a dollar never comes, so all wait as long as they may."""
    options = ("--may-wait", "cifar10=1h", "--threshold", "3usd/hour", "--threshold", "0.5usd/hour")
    rules = run(*asked, *options, "--json").data["rules"]
    assert [(each["rule"], each["mean_wait_s"]) for each in rules[1:-1]] == [
        ("at $3 or less", 0.0),
        ("at $0.5 or less", 3600.0),
    ]


def test_files_and_tables(run: Runner, asked: tuple[str, ...], tmp_path: Path) -> None:
    """What is proven is said beside the tables; the trade-off is written as CSV and drawn."""
    files = {"-o": "out.json", "--trade-off": "out.csv", "--report": "out.html"}
    named = [part for option, name in files.items() for part in (option, str(tmp_path / name))]
    told = run(*asked, "--may-wait", "cifar10=6h", *named)
    assert told.code == 0
    assert "Proven, for these jobs on these widths" in told.out
    assert "Not proven: what fewer or other widths" in told.out
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mean_wait_s"]) for row in rows] == [0.0, 7200.0]
    assert '"least cost"' in (tmp_path / "out.json").read_text()
    page = (tmp_path / "out.html").read_text()
    assert "Money against waiting" in page
    assert "jobs that wait for cheaper hours save 50" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--may-wait", "bert=4h"), "no job of the workload runs 'bert' (it has cifar10)"),
        (("--may-wait", "cifar10=-4h"), "--may-wait"),
        (("--may-wait", "cifar10=nanh"), "--may-wait"),
        (("--may-wait", "4h"), "as in bert=4h"),
        (("--may-wait", "cifar10=4h", "--may-wait", "cifar10=5h"), "two values for 'cifar10'"),
        (("--may-wait", "cifar10=4h", "--hour-worth", "3gpu"), "--hour-worth: got '3gpu'"),
        (("--may-wait", "cifar10=4h", "--policy", "pollux"), "pollux has no fixed widths"),
        (("--may-wait", "cifar10=4h", "--policy", "one-width:20000"), "no job can be completed"),
        (("--may-wait", "cifar10=4h", "--prices", "none.csv"), "none.csv"),
    ],
)
def test_what_is_wrong(run: Runner, asked: tuple[str, ...], options: tuple[str, ...], said: str) -> None:
    """The option that is wrong is named, with what would do."""
    told = run(*asked, *options)
    assert told.code in {1, 2}
    assert said in told.err


def test_prices_of_23_hours(run: Runner, asked: tuple[str, ...]) -> None:
    """The missing hour is named."""
    path = Path(asked[-1])
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))
    told = run(*asked, "--may-wait", "cifar10=4h", "--json")
    assert told.code == 1
    assert "has 23 of 24 hours; no price for 23" in told.err
