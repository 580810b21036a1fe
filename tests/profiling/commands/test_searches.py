"""``optplan measure search`` and ``jobs``: what they print and write, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.instances.files import read_instance
from optplan.profiling.search_profile import Profile, ProfileSettings
from optplan.profiling.trial_timings import TrialTiming
from optplan.progress import Event, Listener
from optplan.solving import solve

if TYPE_CHECKING:
    from tests.conftest import Runner

TIMED = ("--train", "train.py:Trainable", "--gpus", "1,2")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace the running of trials: 10 s an iteration on 1 GPU, 6 s on 2, and starts of 7 s."""
    calls: list[dict[str, Any]] = []

    def profile_here(settings: ProfileSettings, **how: Any) -> Profile:  # noqa: ANN401 - the fields of FolderSettings
        calls.append({"settings": settings, **how})
        seconds = {1: 10.0, 2: 6.0, 4: 4.0}
        timings = [
            TrialTiming(trial, gpus, True, (seconds[gpus],) * 3, (1.0,) * 3, 7.0, 1.0, 2.0, 0.5)
            for trial in (1, 2)
            for gpus in settings.gpus
        ]
        return Profile(tuple(timings), 3.0, 20.0)

    monkeypatch.setattr("optplan.profiling.search_profile.profile_here", profile_here)
    return calls


def test_a_whole_instance(run: Runner, tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    """With stages, price and GPUs of an instance there is nothing missing: it is solved as it stands."""
    path = tmp_path / "search.json"
    shape = ("--stages", "4x10,1x20", "--price", "72usd/day", "--gpus-per-node", "2", "--deadline", "20min")
    told = run("measure", "search", *TIMED, *shape, "--initialise", "1min", "--seed", "3", "-o", path)
    assert told.code == 0, told.err
    assert f"wrote {path}" in told.err
    assert "0.0% between iterations, 0.0% between trials" in told.out
    instance = read_instance(path)
    data = instance.to_json_data()
    assert data["training"]["seconds_per_iteration"]["seconds"] == [10.0, 6.0]
    assert data["cloud"]["price_usd_per_hour"] == 3.0
    assert (data["cloud"]["provision_s"], data["cloud"]["initialise_s"]) == (
        {"form": "constant", "value_s": 3.0},
        {"form": "constant", "value_s": 60.0},
    )
    assert data["source"]["profile"].startswith("optplan measure: 3 trials on 1, 2 GPUs, up to 20 iterations each")
    assert solve(instance).solution is not None
    assert (asked[0]["train"], asked[0]["command"], asked[0]["seed"]) == ("train.py:Trainable", "", 3)


@pytest.mark.usefixtures("asked")
def test_sections_say_what_they_lack(run: Runner, tmp_path: Path) -> None:
    """Without a price and stages the two sections are written, and what is to be added is named."""
    path = tmp_path / "sections.json"
    told = run("measure", "search", *TIMED, "--price", "3usd/hour", "-o", path)
    assert told.code == 0
    assert "to be solved it still needs experiment, cloud.gpus_per_instance: add them, or give --into" in told.err
    sections = json.loads(path.read_text(encoding="utf-8"))
    whole = sections | {"experiment": {"form": "stages", "stages": [{"trials": 2, "iterations": 5}]}}
    whole["cloud"]["gpus_per_instance"] = 2
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert run("solve", path, "--deadline", "20min").code == 0


@pytest.mark.usefixtures("asked")
def test_a_search_is_renewed(run: Runner) -> None:
    """The instance keeps its cloud and its stages; the times are the measured ones."""
    before = read_instance("rubberband-two-stages").to_json_data()
    after = run("measure", "search", *TIMED, "--into", "rubberband-two-stages", "--deadline", "1h", "--json").data
    assert after["training"]["start_s"] == {"form": "constant", "value_s": 7.0}
    assert after["training"]["seconds_per_iteration"]["gpus"] == [1, 2]
    assert (after["cloud"], after["experiment"]) == (before["cloud"], before["experiment"])
    assert after["deadline_s"] == 3600.0
    assert set(after["source"]) == {*before["source"], "profile"}


@pytest.mark.usefixtures("asked")
def test_a_seer_search_learns_its_pauses(run: Runner) -> None:
    """A trial goes on from its checkpoint after 7 s; nothing else changes, and other options have no place."""
    before = read_instance("seer-paper-example").to_json_data()
    after = run("measure", "search", *TIMED, "--into", "seer-paper-example", "--json").data
    assert (before["resize_s"], after["resize_s"]) == (0.0, 7.0)
    assert set(after["source"]) == {*before["source"], "profile"}
    same = {name: value for name, value in before.items() if name not in ("resize_s", "source")}
    assert same.items() <= after.items()
    told = run("measure", "search", *TIMED, "--into", "seer-paper-example", "--deadline", "1h")
    assert "of a SEER search only resize_s is renewed" in told.err


@pytest.mark.usefixtures("asked")
def test_the_fields_of_a_class(run: Runner) -> None:
    """Twice 10/6 as fast on 2 GPUs; a change of width costs 7 s."""
    made = run("measure", "jobs", *TIMED, "--gpu", "t4", "--json").data
    assert made == {
        "reference_width": 1,
        "rescale_s": 7.0,
        "speedup": {
            "t4": {
                "form": "table",
                "gpus": [1, 2],
                "speedup": [1.0, 1.6667],
                "provenance": ["measured", "measured"],
                "error": [0.0, 0.0],  # nothing varied
            }
        },
    }
    assert "1.667 to 1.667" in run("measure", "jobs", *TIMED).out


@pytest.mark.usefixtures("asked")
def test_a_class_is_renewed(run: Runner, tmp_path: Path) -> None:
    """The cluster is whole, solves, and says where the speedup is from."""
    path = tmp_path / "cluster.json"
    wanted = ("--into", "boa-two-epochs", "--class", "job")
    assert run("measure", "jobs", *TIMED, *wanted, "-o", path).code == 0
    instance = read_instance(path)
    data = instance.to_json_data()
    assert data["classes"]["job"]["speedup"]["gpu"]["speedup"] == [1.0, 1.6667]
    assert data["classes"]["job"]["rescale_s"] == 7.0
    assert data["source"]["profile.job"].endswith("95 % intervals: 2 GPUs 1.667 to 1.667")
    assert solve(instance).solution is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "--gpus", "1,2"), "--train: give what to train with --train or --command, one of the two"),
        (("search", *TIMED, "--command", "true"), "--train: give what to train with --train or --command"),
        (("search", *TIMED, "--stages", "8by10"), "--stages: got '8by10'; trials x iterations of each stage"),
        (("search", *TIMED, "--price", "3gpu"), "--price: got '3gpu'; money for an hour, a day or a month is needed"),
        (("search", *TIMED[:2], "--gpus", "2,1"), "--gpus: got [2, 1]; whole numbers from 1 on, each once"),
        (("search", *TIMED, "--warm-up", "0"), "--warm-up: got 0; whole numbers from 1 on are allowed"),
        (("search", *TIMED, "--into", "boa-two-epochs"), "boa-two-epochs"),
        (("search", *TIMED, "--address", "auto"), "--address: executor 'local' has none; give --executor ray"),
        (("jobs", *TIMED, "--class", "job"), "--class: an instance's class is renewed; give both --into and"),
        (("jobs", *TIMED, "--into", "boa-two-epochs", "--class", "jobs"), "has no 'jobs'; did you mean 'job'?"),
        (
            ("jobs", "--train", "t.py:T", "--gpus", "2,4", "--into", "boa-two-epochs", "--class", "job"),
            "--gpus: got 2 as the fewest, and job's sizes are those on 1; begin with 1",
        ),
    ],
)
def test_wrong_calls_are_explained(
    arguments: tuple[str, ...], message: str, run: Runner, asked: list[dict[str, Any]]
) -> None:
    """Nothing is run, and one line says why."""
    told = run("measure", *arguments)
    assert (told.code, told.out) == (2, "")
    assert message in told.err
    assert not asked


def test_a_scratch_folder_is_there(run: Runner, tmp_path: Path) -> None:
    """One that is missing is named before anything is run."""
    told = run("measure", "search", *TIMED, "--scratch", tmp_path / "nowhere")
    assert told.code == 2
    assert "nowhere' is no folder; make it, or give one that all machines see" in told.err


def test_intervals_are_explained(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they are, from how many repetitions, and that one from zero on says nothing of its lower end."""

    def profile_here(settings: ProfileSettings, **_: object) -> Profile:
        seconds = {1: (10.0, 10.1), 2: (1.0, 2.2)}
        timings = [
            TrialTiming(trial, gpus, True, (seconds[gpus][trial - 1],) * 3, (1.0,) * 3, 7.0)
            for trial in (1, 2)
            for gpus in settings.gpus
        ]
        return Profile(tuple(timings), 3.0, 20.0)

    monkeypatch.setattr("optplan.profiling.search_profile.profile_here", profile_here)
    told = run("measure", "search", *TIMED)
    shown = " ".join(told.out.split())
    assert "0 to 9.22" in shown
    assert "The true mean lies in the 95 % interval, as far as 2 repetitions tell (Student's t)." in shown
    assert "One that begins at 0 says nothing of its lower end: give more --repeats." in shown


def test_a_long_profile_is_not_silent(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is no terminal there is a line at times that says how far it is; --quiet leaves it out."""

    def profile_here(settings: ProfileSettings, *, on_event: Listener, **_: object) -> Profile:
        timings = []
        for trial in (1, 2):
            for gpus in settings.gpus:
                on_event(Event(f"trial {trial} on {gpus} GPUs", 0.0, fraction=(trial - 1) / 2))
                timings.append(TrialTiming(trial, gpus, True, (1.0,) * 3, (1.0,) * 3, 7.0))
        return Profile(tuple(timings), 3.0, 20.0)

    monkeypatch.setattr("optplan.profiling.search_profile.profile_here", profile_here)
    monkeypatch.setattr("optplan.cli.console._TELL_S", 0.0)
    told = run("measure", "search", *TIMED)
    assert "profiling, 0 s | trial 1 on 1 GPUs | 0%\n" in told.err
    assert "| trial 2 on 2 GPUs | 50%\n" in told.err
    assert "trial" not in run("measure", "search", *TIMED, "--quiet").err
    monkeypatch.setattr("optplan.cli.console._TELL_S", 1e9)
    assert "trial" not in run("measure", "search", *TIMED).err
