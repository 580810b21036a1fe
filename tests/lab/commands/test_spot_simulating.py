"""``optplan simulate spot``: figures by hand, segments, prices from all sides, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

GIVEN = ("--work", "4h", "--deadline", "8h", "--restart", "1h", "--checkpoint-every", "2h")
PRICES = ("--spot-price", "1usd/hour", "--on-demand-price", "3usd/hour")


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    """Write a trace of one zone in ticks of an hour: 12 to learn from, then spot VMs for 4 of 8 hours."""
    return _write(tmp_path / "us-east-1a_v100_1.json", [1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0])


def _write(path: Path, data: list[int] | list[float]) -> Path:
    path.write_text(json.dumps({"metadata": {"gap_seconds": 3600}, "data": data}))
    return path


def test_one_start_by_hand(run: Runner, zone: Path) -> None:
    """Spot for 4 h trains 3: greedy loses the third and needs 1 + 2 h on demand, $4 + $9; on demand alone costs $15.

    Hindsight does not pay for the hour that is lost: 3 h on spot train 2, and 3 h on demand follow, $3 + $9.
    """
    told = run("simulate", "spot", zone, *GIVEN, *PRICES, "--start", "12h", "--json")
    assert told.code == 0
    costs = {outcome["policy"]: outcome["cost_usd"] for outcome in told.data["trials"][0]["outcomes"]}
    assert costs["hindsight"] == 12.0
    assert (costs["on-demand"], costs["greedy"]) == (15.0, 13.0)
    greedy = next(o for o in told.data["trials"][0]["outcomes"] if o["policy"] == "greedy")
    assert greedy["segments"][0] == {
        "start_s": 0.0,
        "end_s": 4 * 3600.0,
        "place": "us-east-1a",
        "trained_s": 2 * 3600.0,
        "cost_usd": 4.0,
        "is_lost": True,
    }
    shown = run("simulate", "spot", zone, *GIVEN, *PRICES, "--start", "12h", "--policy", "greedy").out
    assert "us-east-1a" in shown
    assert "lost" in shown


def test_trials_are_drawn_from_what_was_not_learned_from(run: Runner, zone: Path) -> None:
    """With 8 h of deadline and 12 of 20 h learned from, only a start at 12 h is possible: all trials are that one."""
    told = run("simulate", "spot", zone, *GIVEN, *PRICES, "--train-share", "0.6", "--samples", "3", "--json")
    assert [trial["start_s"] for trial in told.data["trials"]] == [12 * 3600.0] * 3
    scores = {score["policy"]: score for score in told.data["scores"]}
    assert scores["greedy"]["ratio"] == pytest.approx(13 / 12)
    assert {score["kept"] for score in told.data["scores"]} == {1.0}
    early = run(
        "simulate", "spot", zone, *GIVEN, *PRICES, "--train-share", "0.2", "--samples", "5", "--seed", "7", "--json"
    )
    again = run(
        "simulate", "spot", zone, *GIVEN, *PRICES, "--train-share", "0.2", "--samples", "5", "--seed", "7", "--json"
    )
    assert early.data == again.data
    assert all(4 * 3600.0 <= trial["start_s"] <= 12 * 3600.0 for trial in early.data["trials"])


def test_prices_of_each_zone_and_over_time(run: Runner, zone: Path, tmp_path: Path) -> None:
    """Spot at $2 in the hours 12 and 13, $1 later: greedy pays $6 + $9, hindsight starts at 13 for $4 + $9.

    Two VMs of everything, spot all the time, cost twice as much as one: 5 h at $2.
    """
    series = _write(tmp_path / "prices.json", [1.0] * 12 + [2.0, 2.0, 1.0])
    asked = ("--spot-price", f"us-east-1a={series}", "--on-demand-price", "3usd/hour", "--start", "12h", "--json")
    told = run("simulate", "spot", zone, *GIVEN, *asked, "--policy", "greedy")
    assert [o["cost_usd"] for o in told.data["trials"][0]["outcomes"]] == [13.0, 15.0]
    two = _write(tmp_path / "us-east-1b_v100_1.json", [2] * 20)
    told = run(
        "simulate", "spot", two, *GIVEN, *PRICES, "--nodes", "2", "--start", "12h", "--policy", "greedy", "--json"
    )
    assert [o["cost_usd"] for o in told.data["trials"][0]["outcomes"]] == [10.0, 10.0]


def test_prices_from_a_list(run: Runner, zone: Path, data_pack: Path) -> None:
    """AWS's p3.2xlarge at $3.06 on demand: 5 h of it; of spot the median of the region's zones."""
    listed = data_pack / "catalog" / "aws-v8-gpu-us-east-1-us-west-2.csv"
    asked = ("--catalog", listed, "--vm-type", "p3.2xlarge", "--start", "12h", "--policy", "on-demand", "--json")
    told = run("simulate", "spot", zone, *GIVEN, *asked)
    hindsight, on_demand = (o["cost_usd"] for o in told.data["trials"][0]["outcomes"])
    assert on_demand == pytest.approx(5 * 3.06)
    assert hindsight == pytest.approx(3 * 0.3941 + 3 * 3.06)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        (("--work", "8h"), 3, "deadline: got 8 h 00 min, but the work and a restart take 9 h 00 min"),
        (("--deadline", "11h"), 2, "--deadline: 11 h 00 min, but after the part that is learned from 10 h"),
        (("--policy", "greedly"), 2, "did you mean 'greedy'"),
        (("--nodes", "2"), 2, "--nodes: got 2, but no zone ever has more than 1"),
        (("--start", "14h"), 2, "--start: got 14 h"),
        (("--spot-price", "us-west-2a=1usd/hour"), 2, "--spot-price: no zone 'us-west-2a'"),
        (("--checkpoint-every", "0s"), 2, "--checkpoint-every"),
        (("--samples", "0"), 2, "--samples: got 0"),
        (("--seed", "-1"), 2, "Invalid value for '--seed': -1 is not in the range x>=0"),
        (("--train-share", "nan"), 2, "Invalid value for '--train-share': nan is no finite number"),
    ],
)
def test_what_is_wrong_is_said(run: Runner, zone: Path, changes: tuple[str, str], code: int, words: str) -> None:
    """Each wish that cannot be met is answered with the option, the value and what would do."""
    told = run("simulate", "spot", zone, *GIVEN, *PRICES, "--train-share", "0.5", *changes)
    assert told.code == code
    assert words in told.err


def test_prices_and_zones_that_are_missing(run: Runner, zone: Path, tmp_path: Path) -> None:
    """A price that nobody gives, and two traces of one zone."""
    assert "--on-demand-price" in run("simulate", "spot", zone, *GIVEN, "--spot-price", "1usd/hour").err
    other = _write(tmp_path / "us-east-1a_k80_1.json", [1] * 20)
    assert "give one trace for each zone" in run("simulate", "spot", zone, other, *GIVEN, *PRICES).err
    broken = tmp_path / "prices.json"
    broken.write_text('{"metadata": {"gap_seconds": 60}, "data": [1.0, -1.0]}')
    told = run("simulate", "spot", zone, *GIVEN, "--spot-price", str(broken), "--on-demand-price", "3usd/hour")
    assert (told.code, "data[1] is -1.0" in told.err) == (1, True)
