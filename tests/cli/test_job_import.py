"""``optplan import log``: from a log to an instance that can be solved, and its report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.instances.files import read_instance

if TYPE_CHECKING:
    from tests.conftest import Runner

#: Two classes of two names, a day's worth; on one width, so that speedups have to be stated.
LOG = "name,submit,start,hours,gpus,state\n" + "".join(
    f"{name}-{number},2026-03-02T{hour:02d}:00,2026-03-02T{hour:02d}:30,{hours},2,finished\n"
    for number, (name, hour, hours) in enumerate(
        (name, hour, hours) for name, hours in (("vision", 1.0), ("nlp", 4.0)) for hour in range(0, 24, 4)
    )
)
SPAN = ("--since", "2026-03-02", "--until", "2026-03-03")


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    """Return the command on a small log."""
    path = tmp_path / "week.csv"
    path.write_text(LOG, encoding="utf-8")
    return ("import", "log", str(path), "--from", "csv", *SPAN)


def test_a_log_becomes_an_instance_that_can_be_solved(run: Runner, command: tuple[str, ...], tmp_path: Path) -> None:
    """Classes by a pattern, a stated law, a price: written, solved, and the log stands beside the plan."""
    path, report = tmp_path / "mine.json", tmp_path / "report.html"
    told = run(
        *(*command, "--class-pattern", "^[a-z]+", "--assume", "linear", "--assume", "nlp=power:0.5"),
        *(
            "--rescale",
            "60s",
            "--price",
            "2usd/hour",
            "--gpu",
            "t4",
            "--budget",
            "3gpu",
            "--epochs",
            "nlp=2",
            "-o",
            path,
        ),
    )
    assert told.code == 0
    assert "classes.nlp.arrival_rate_per_hour rests on 6 jobs" in told.err
    assert told.err.endswith(f"wrote {path}\n")
    assert "0.0917 to 0.544" in told.out  # 6 jobs: 2.202 to 13.06, in 24 hours
    instance = read_instance(path).to_json_data()
    vision, nlp = instance["classes"]["vision"], instance["classes"]["nlp"]
    # Six in a day; an hour on two GPUs that are twice as fast, four at 2^0.5 in two epochs.
    assert vision["arrival_rate_per_hour"] == pytest.approx(0.25)
    assert vision["epoch_size_gpu_hours"] == pytest.approx([2.0])
    assert nlp["epoch_size_gpu_hours"] == pytest.approx([2 * 2**0.5] * 2)
    assert (vision["rescale_s"], vision["logged"]["wait_s"], instance["budget"]) == (60.0, 1800.0, "3gpu")
    solved = run("solve", path, "--report", report)
    assert solved.code == 0
    assert "GPUs by plan" in solved.out
    page = report.read_text(encoding="utf-8")
    assert "The log beside the plan" in page
    # Six jobs a day of 2 and of 8 GPU-hours for 2 dollars each over 730 hours: 60 / 24 * 2 * 730.
    assert "$3,650" in page


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_a_log_has_a_page_before_anything_is_planned(run: Runner, command: tuple[str, ...], tmp_path: Path) -> None:
    """Twelve jobs on two GPUs, six of an hour and six of four: 60 GPU-hours; each waited half an hour."""
    report = tmp_path / "log.html"
    told = run(*command, "--yes", "--assume", "linear", "-o", tmp_path / "mine.json", "--report", report)
    assert told.code == 0
    assert told.err.endswith(f"wrote {tmp_path / 'mine.json'}\n") or f"wrote {report}" in told.err
    page = report.read_text(encoding="utf-8").replace("\xa0", " ")
    assert "12 jobs held " in page
    assert "and waited 30 min 00 s for them" in page
    assert "60.0" in page
    figures = json.loads(page.partition('id="figures">')[2].partition("</script>")[0])
    held = {trace["name"]: trace["y"] for trace in figures["chart-over-time-1"]["data"] if trace["yaxis"] == "y"}
    assert set(held) == {"nlp", "vision", "P95"}
    assert max(held["vision"]) == 2.0
    assert figures["chart-over-time-1"]["data"][0]["x0"].startswith("2026-03-02 ")
    again = run(*command, "--yes", "--assume", "linear", "-o", tmp_path / "other.json", "--report", report)
    assert again.code != 0  # it is not written over
    assert not (tmp_path / "other.json").exists()


def test_suggested_classes_have_to_be_confirmed(
    run: Runner, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal only --yes takes them; on one, the answer counts."""
    refused = run(*command, "--assume", "linear", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "vision: 6 jobs, such as vision-0, vision-1, vision-2" in refused.err
    assert refused.error["message"].startswith("--yes: ")
    taken = run(*command, "--assume", "linear", "--yes", "--json")
    assert set(taken.data["classes"]) == {"vision", "nlp"}
    assert taken.data["source"]["classes"] == "as suggested by stems of names and sizes"
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    for answer, code in (("y", 0), ("n", 2)):
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _text, given=answer: given)
        assert run(*command, "--assume", "linear", "--json").code == code


def test_columns_and_rules(run: Runner, tmp_path: Path) -> None:
    """Columns under names of the user's, jobs that failed dropped, everything told in the instance."""
    path = tmp_path / "log.csv"
    text = "Job;Queued;Run;How\n" + "".join(
        f"x;2026-03-02 0{hour}:00;90;{how}\n" for hour, how in enumerate(("done", "done", "FAILED", "done"))
    )
    path.write_text(text, encoding="utf-8")
    told = run(
        *("import", "log", path, "--from", "csv", "--columns", "name=Job,submit=Queued", "--columns", "minutes=Run"),
        *("--columns", "state=How", "--gpus", "4", "--rule", "failed=drop", "--class-column", "Job"),
        *("--assume", "linear", "--timezone", "Europe/Berlin", "--json"),
    )
    assert told.code == 0
    assert told.data["classes"]["x"]["logged"]["jobs"] == 3
    assert told.data["classes"]["x"]["epoch_size_gpu_hours"] == [6.0]
    source = told.data["source"]
    assert source["left out"] == "1 failed jobs (first: line 4)"
    assert (source["rules"], source["GPUs of a job"]) == ("failed: drop", "assumed: 4")
    assert source["time zone"].startswith("Europe/Berlin")


def test_gpus_are_given_once(run: Runner, tmp_path: Path) -> None:
    """Where a column has them, one number for all jobs would change the load without a word."""
    path = tmp_path / "log.csv"
    path.write_text("name,submit,hours,GPU Count\na,2026-03-02T00:00,1,2\n", encoding="utf-8")
    told = run("import", "log", path, "--from", "csv", "--class-column", "name", "--gpus", "4", "--json")
    assert told.code == 1
    assert "--gpus: 4 are given for every job, and the column 'GPU Count' says how many" in told.error["message"]


def test_a_rule_for_a_state_of_no_job_is_told(run: Runner, tmp_path: Path) -> None:
    """It may be misspelt; of states that are known, or that jobs have, nothing is said."""
    path = tmp_path / "log.csv"
    rows = "".join(f"a,2026-03-02T0{hour}:00,1,2,{how}\n" for hour, how in enumerate(("done", "failed", "lost")))
    path.write_text("name,submit,hours,gpus,state\n" + rows, encoding="utf-8")
    command = ("import", "log", path, "--from", "csv", "--class-column", "name", *SPAN, "--rule", "lost=keep", "--json")
    assert "--rule" not in run(*command, "--rule", "timeout=drop").err
    told = run(*command, "--rule", "faild=drop")
    assert told.code == 0
    assert "--rule: no job ended as 'faild'; did you mean 'failed'?" in told.err


def test_a_state_that_is_left_empty(run: Runner, tmp_path: Path) -> None:
    """The rule that the message proposes is taken."""
    log = tmp_path / "jobs.txt"
    rows = "".join(f"{hour}|a||2026-03-02T0{hour}:00:00|04:00:00|gres/gpu=8\n" for hour in range(3))
    log.write_text(f"JobID|JobName|State|Submit|Elapsed|AllocTRES\n{rows}", encoding="utf-8")
    command = ("import", "log", log, "--from", "sacct", "--class-pattern", "^[a-z]+", "--json")
    assert "the state '' is not known; say what it means, as in --rule =keep" in run(*command).error["message"]
    assert run(*command, "--rule", "=keep").data["classes"]["a"]["epoch_size_gpu_hours"] == [4.0]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--class-pattern", "x", "--class-column", "name"), 2, "--class-pattern, --class-column: give one of them"),
        (("--class-pattern", "("), 2, "--class-pattern: '(' is no regular expression"),
        (("--yes", "--assume", "gustafson"), 2, "--assume: got 'gustafson'; amdahl:FRACTION (the serial one)"),
        (("--yes", "--assume", "linear", "--assume", "linear"), 2, "--assume: two values are given; give one"),
        (("--rule", "failed"), 2, "--rule: got 'failed'; a state and a rule are needed, as in failed=drop"),
        (("--rule", "failed=forget"), 2, "--rule failed: 'forget' is not known; keep, count or drop are allowed"),
        (("--columns", "name"), 2, "--columns: got 'name'; each column once is needed"),
        (("--epochs", "2:x"), 2, "--epochs: got '2:x'; a number of epochs (3) or their relative sizes"),
        (("--timezone", "Mars"), 2, "--timezone: got 'Mars', which is no time zone"),
        (("--since", "yesterday"), 1, "--since: 'yesterday' is no time"),
        (("--from", "lsf"), 2, "--from"),
        (
            ("--yes", "--price-source", "a list"),
            2,
            "--price-source: says who published an amount that --price gives; give one",
        ),
        (("--from", "sacct", "--gpus", "2"), 2, "--gpus: a log of sacct says that itself; leave it out"),
    ],
)
def test_wrong_options(
    run: Runner, command: tuple[str, ...], options: tuple[str, ...], code: int, message: str
) -> None:
    """Each names the option and what it takes."""
    told = run(*command, *options, "--json")
    assert (told.code, told.out) == (code, "")
    assert message in told.error["message"]


def test_which_runs_a_fit_takes_is_said(run: Runner, tmp_path: Path) -> None:
    """Of a class that is as fast as its GPUs are many, and fails after an hour on any: all runs by the user's word."""
    path = tmp_path / "log.csv"
    text = "name,submit,hours,gpus,state\n" + "".join(
        f"x,2026-03-02T{hour:02d}:00,{hours},{gpus},{state}\n"
        for hour, (gpus, hours, state) in enumerate(
            (gpus, hours, state) for gpus in (1, 2, 4) for hours, state in ((8 / gpus, "done"), (1, "failed")) * 3
        )
    )
    path.write_text(text, encoding="utf-8")
    command = ("import", "log", path, "--from", "csv", *SPAN, "--class-column", "name", "--json")
    told = run(*command).data
    assert told["source"]["speedups"].startswith("x: fitted to 9 completed runs on 1, 2, 4 GPUs")
    assert told["source"]["load"].startswith("arrivals and sizes: completed, failed, timeout, cancelled, preempted")
    assert told["source"]["load"].endswith("; arrivals only: running, pending")
    every = run(*command, "--fit-runs", "all").data
    assert every["source"]["speedups"].startswith("x: fitted to 18 runs on 1, 2, 4 GPUs")
    assert run(*command, "--fit-runs", "x=all").data == every
    refused = run(*command, "--fit-runs", "some")
    assert (refused.code, refused.error["message"]) == (2, "--fit-runs: got 'some'; completed, all or none is needed")


def test_a_class_whose_runs_all_failed_stops_no_other(run: Runner, tmp_path: Path) -> None:
    """It is refused with what to do; each of the ways leaves the other class as it was."""
    path = tmp_path / "log.csv"
    text = "name,submit,hours,gpus,state\n" + "".join(
        f"{name},2026-03-02T{2 * hour + late:02d}:00,{8 / gpus},{gpus},{state}\n"
        for late, (name, state) in enumerate((("good", "done"), ("bad", "failed")))
        for hour, gpus in enumerate((1, 2, 4) * 3)
    )
    path.write_text(text, encoding="utf-8")
    command = ("import", "log", path, "--from", "csv", *SPAN, "--class-column", "name", "--json")
    refused = run(*command)
    assert refused.code == 1
    assert refused.error["message"].startswith("classes.bad.speedup: is not known: no run completed, on any of 1, 2, 4")
    dropped = run(*command, "--rule", "failed=drop").data
    assert list(dropped["classes"]) == ["good"]
    assert dropped["source"]["left out"].startswith("9 failed jobs")
    fitted = run(*command, "--fit-runs", "bad=all").data
    assert "good: fitted to 9 completed runs on" in fitted["source"]["speedups"]
    assert "bad: fitted to 9 runs on" in fitted["source"]["speedups"]
    assert fitted["classes"]["good"] == dropped["classes"]["good"]


def test_sensitivity_takes_the_logs_own_errors(run: Runner, command: tuple[str, ...], tmp_path: Path) -> None:
    """Of both classes 6 jobs: rates by 1 / sqrt(6) = 41 %; sizes do not differ, nor speedups on one width."""
    path = tmp_path / "mine.json"
    run(*command, "--yes", "--budget", "4gpu", "-o", path)
    result = tmp_path / "result.json"
    run("solve", path, "-o", result)
    asked = ("explain", result, "--instance", path, "--samples", "5", "--wrong")
    told = run(*asked, "log")
    assert told.code == 0
    assert "arrival rates by 41 %" in told.out
    also = run(*asked, "speedup=10%", "--json").data
    assert (also["errors"]["speedup"], also["errors"]["arrival"]) == (0.1, 0.0)
    assert also["errors_by_class"]["vision"] == {"arrival": pytest.approx(6**-0.5)}
    other = run(*asked, "arrival=5%")
    assert "wrong: arrival rates by 5 % (one" in other.out
    nothing = run(*asked, "arrival=0")
    assert nothing.code == 2
    assert "there are no errors to sample" in nothing.err


def test_what_is_assumed_is_said_wherever_the_answer_goes(
    run: Runner, command: tuple[str, ...], tmp_path: Path
) -> None:
    """Jobs of 1 h and of 4 h on 2 GPUs: 20 % assumed, 80 % measured, in first lines, JSON, badge and sensitivity."""
    path, report, result = tmp_path / "mine.json", tmp_path / "report.html", tmp_path / "result.json"
    run(*command, "--yes", "--assume", "vision=linear", "--budget", "4gpu", "-o", path)
    solved = run("solve", path, "--report", report, "-o", result)
    assert solved.code == 0
    first = " ".join(solved.out.split("\n\n")[0].split())
    assert "20 % assumed, 80 % measured" in first
    assert "proven optimal; 20 %" in " ".join(solved.out.split())
    assert run("solve", path, "--json").data["evidence"] == {
        "assumed": pytest.approx(0.2),
        "measured": pytest.approx(0.8),
    }
    page = report.read_text(encoding="utf-8")
    head = page[: page.index("<section")].replace("\xa0", " ")
    assert "proven optimal; 20 %" in head
    assert "20 % assumed, 80 % measured" in head
    checked = run("verify", path, result)
    assert checked.code == 0
    assert "proven optimal, gap 0 %; of speedups 20 % assumed, 80 % measured" in " ".join(checked.out.split())
    assert run("verify", path, result, "--json").data["evidence"]["assumed"] == pytest.approx(0.2)
    # One of eight widths at most: ln(8) / 2 / 1.645 = 0.63 in the logarithm, sqrt(e^0.4 - 1) = 70 %.
    told = " ".join(run("explain", result, "--instance", path, "--samples", "5", "--wrong", "log").out.split())
    assert "speedups by 70 % and arrival rates by 41 %" in told


def test_a_class_on_one_width_keeps_to_it(run: Runner, command: tuple[str, ...]) -> None:
    """Nothing says how it speeds up, and nothing is assumed: it may get the 2 GPUs that it had."""
    told = run(*command, "--yes", "--json")
    assert told.code == 0
    for job_class, hours in (("vision", 1.0), ("nlp", 4.0)):
        found = told.data["classes"][job_class]
        assert (found["reference_width"], found["epoch_size_gpu_hours"]) == (2, [hours])
        assert found["speedup"]["gpu"]["gpus"] == [2]
    assert "nlp: unknown" in told.data["source"]["speedups"]


def test_frontiers_say_what_is_assumed_of_the_load(run: Runner, command: tuple[str, ...], tmp_path: Path) -> None:
    """Jobs of 1 h and of 4 h on 2 GPUs, 2 and 8 GPU-hours, of which the one are assumed to scale."""
    path = tmp_path / "mine.json"
    run(*command, "--yes", "--assume", "vision=linear", "--budget", "4gpu", "-o", path)
    said = "Speedups behind the load: 20 % assumed, 80 % measured. What is proven is proven for these."
    assert said in " ".join(run("frontier", path).out.split())
    assert run("frontier", path, "--json").data["evidence"] == {
        "assumed": pytest.approx(0.2),
        "measured": pytest.approx(0.8),
    }
    assert "assumed" not in run("frontier", "boa-two-classes").out


def test_classes_stay_on_the_types_on_which_they_ran(run: Runner, tmp_path: Path) -> None:
    """Of vision on two types, half as long on one, and nlp on one of them."""
    rows = [("vision", "old", 2), ("vision", "new", 1), ("nlp", "old", 4)] * 6
    text = "name,submit,hours,gpus,gpu_type\n" + "".join(
        f"{name},2026-03-02T{number:02d}:00,{hours},1,{kind}\n" for number, (name, kind, hours) in enumerate(rows)
    )
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    classes = run("import", "log", path, "--from", "csv", "--class-column", "name", "--json").data["classes"]
    assert {name: set(each["speedup"]) for name, each in classes.items()} == {"vision": {"old", "new"}, "nlp": {"old"}}
