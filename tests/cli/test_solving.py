"""``optplan solve``: answers, files, comparisons, and what cannot be answered."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import jsonschema
import pytest

from optplan.contracts import Check, Result, Status, Verification
from optplan.errors import EngineError, MissingExtraError
from optplan.formulations.boa.data.instance import BoaSolution
from optplan.instances.files import read_plan, read_result

if TYPE_CHECKING:
    from tests.conftest import Runner

InstanceWriter = Callable[..., Path]


def test_an_answer_for_people(run: Runner) -> None:
    """The answer leads, then the figures, the widths, and what mixing could save; stderr stays quiet."""
    told = run("solve", "boa-two-classes", "--budget", "10gpu")
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert "10 GPUs" in lines[0]
    assert "46 min 57 s" in lines[0]
    for part in ("proven", "bound", "one more GPU on average saves", "rescaling", "verified in", "1 to 2"):
        assert part in told.out
    (mixing,) = (line for line in lines if line.startswith("A mixed plan"))
    assert "5.6 %" in mixing


def test_a_pure_plan_at_a_breakpoint_cannot_be_mixed_better(run: Runner) -> None:
    """Where the pure plan meets the Lagrangian bound, the answer says that mixing does not help."""
    # 1.25 GPUs is exactly what width 2 needs, a vertex of the hull of (1, 1), (1.25, 5/8), (2, 1/2).
    told = run("solve", "boa-one-table")
    assert "No mixed plan" in told.out


def test_a_mixed_plan_is_not_compared_with_itself(run: Runner) -> None:
    """A mixed plan has shares, and no sentence about mixing."""
    told = run("solve", "boa-two-epochs", "--policy", "mixed")
    assert told.code == 0
    assert "share" in told.out
    assert "mixed plan" not in told.out


def test_an_answer_with_types(run: Runner) -> None:
    """With several GPU types: what each costs, what limits are worth, which class uses which, all in the answer."""
    told = run("solve", "boa-newtrace-quotas", "--budget", "65700usd/month")  # $90 an hour
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    for part in ("$65,700 a month", "$90.00 an hour", "24 rtx-2080-ti", "16 a100"):
        assert part in lines[0]
    parts = ("one more dollar an hour saves", "8 a100", "by type", "share of the cost", "all types", "price an hour")
    for part in parts:
        assert part in told.out
    (quota,) = (line for line in lines if line.startswith("quota of a100"))
    assert quota.split()[5:7] == ["16", "GPUs"]
    assert any(line.startswith("One more a100") for line in lines)


def test_explained_here_and_in_the_report(run: Runner, tmp_path: Path) -> None:
    """--explain adds its table to the answer, and a section to the report."""
    pytest.importorskip("plotly")
    page = tmp_path / "report.html"
    told = run("solve", "boa-two-classes", "--explain", "--report", page)
    assert told.code == 0
    assert "of budget" in told.out
    assert "forced: s" in told.out
    assert "Why each class gets these GPUs" in page.read_text(encoding="utf-8")
    quiet = run("solve", "boa-two-classes", "--explain", "--json", "--report", page, "--force")
    assert (quiet.code, quiet.data["solver"]) == (0, "layered-paths")


@pytest.mark.parametrize(
    ("options", "seconds"), [((), 2.0), (("--time-limit", "1min"), 2.0), (("--time-limit", "1s"), 1)]
)
def test_re_solves_have_a_limit(
    run: Runner, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], seconds: float
) -> None:
    """Explaining takes two seconds for each re-solve at most, or the time limit where that is less."""
    from optplan import solving

    asked: list[float | None] = []

    def note(*arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - of the function replaced
        asked.append(settings["time_limit_s"])
        return original(*arguments, **settings)

    original = solving.explain
    monkeypatch.setattr(solving, "explain", note)
    assert run("solve", "boa-one-table", "--explain", *options).code == 0
    assert asked == [seconds]


def test_explanations_have_no_place_in_a_result(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --json and no report, nobody would see the explanation; nothing is solved for it."""
    monkeypatch.setattr("optplan.solving.solve", lambda *_, **__: pytest.fail("solved"))
    told = run("solve", "boa-one-table", "--explain", "--json")
    assert (told.code, told.error["message"]) == (
        2,
        "--explain: --json prints the result only; add --report, or run optplan explain RESULT --json",
    )


def test_what_cannot_be_explained_costs_no_answer(run: Runner) -> None:
    """Without a plan, and where nothing is chosen between neighbours, the answer stands and the reason is told."""
    told = run("solve", "boa-two-classes", "--budget", "1gpu", "--explain")
    assert told.code == 3
    assert told.err == "warning: --explain: there is no plan to explain\n"
    told = run("solve", "boa-newtrace-tables", "--problem", "continuous", "--budget", "120gpu", "--explain")
    assert told.code == 2
    assert told.out.startswith("With 120 GPUs on average")
    assert "in the continuous problem every width has the same marginal rate" in told.err


def test_json_is_the_result(run: Runner) -> None:
    """--json prints the Result, which the library reads, the schema accepts, and the hand calculation confirms."""
    told = run("solve", "boa-one-table", "--json")
    assert (told.code, told.err) == (0, "")
    result = Result[BoaSolution].parse(told.data)
    # Width 2 for 1 / 1.6 h = 2250 s uses 2 * 0.625 = 1.25 GPUs: the whole budget.
    assert result.objective == pytest.approx(2250.0, rel=1e-12)
    assert result.status is Status.OPTIMAL
    jsonschema.validate(told.data, run("schema", "result").data)


def test_json_with_rivals_is_a_list_of_results(run: Runner) -> None:
    """With --compare, --json prints every Result, ours first."""
    told = run("solve", "boa-two-classes", "--compare", "highs", "--compare", "fixed-width", "--json")
    assert told.code == 0
    results = [Result[BoaSolution].parse(record) for record in told.data]
    assert [result.solver for result in results] == ["layered-paths", "highs", "fixed-width"]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-6)


def test_comparison_for_people(run: Runner) -> None:
    """Rivals stand in one table with the answer."""
    told = run("solve", "boa-two-classes", "--compare", "published-algorithm1", "--compare", "enumeration")
    assert told.code == 0
    last = told.out[told.out.index("solved in") :]
    for name in ("layered-paths", "published-algorithm1", "enumeration"):
        assert name in last


def test_settings_reach_the_solver(run: Runner) -> None:
    """Solver, gap, seed and the changed problem are in the Result."""
    told = run(
        *("solve", "boa-two-classes", "--solver", "highs", "--gap", "10%", "--seed", "7", "--problem", "whole"),
        *("--policy", "mixed", "--time-limit", "60s", "--budget", "14600usd/month", "--json"),
    )
    assert told.code == 0
    assert (told.data["solver"], told.data["gap_target"], told.data["seed"]) == ("highs", 0.1, 7)
    # 14600 / 730 hours / 2 dollars = 10 GPUs, and mixing spends all of them.
    assert told.data["measures"]["gpus"] == pytest.approx(10.0)
    assert told.data["measures"]["gpus_rescaling"] == 0.0


def test_files_are_written_and_named(run: Runner, tmp_path: Path) -> None:
    """Result, plan and report are written whole; their names go to stderr."""
    pytest.importorskip("plotly")
    result, plan, page = tmp_path / "result.json", tmp_path / "plan.json", tmp_path / "report.html"
    told = run("solve", "boa-two-classes", "-o", result, "--plan", plan, "--report", page, "--compare", "fixed-width")
    assert told.code == 0
    assert told.err.splitlines() == [f"wrote {path}" for path in (result, plan, page)]
    assert read_result(result).solver == "layered-paths"
    assert read_plan(plan).instance_name == "boa-two-classes"
    jsonschema.validate(json.loads(plan.read_text(encoding="utf-8")), run("schema", "plan").data)
    text = page.read_text(encoding="utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert "fixed-width" in text


def test_the_report_says_how_to_verify(run: Runner, tmp_path: Path) -> None:
    """The report's command line names the user's files and repeats what changed the instance."""
    pytest.importorskip("plotly")
    result, page = tmp_path / "result.json", tmp_path / "report.html"
    run("solve", "boa-two-classes", "--budget", "11gpu", "-o", result, "--report", page)
    assert f"optplan verify boa-two-classes {result} --budget 11gpu" in page.read_text(encoding="utf-8")
    assert run("verify", "boa-two-classes", result, "--budget", "11gpu").code == 0


@pytest.mark.parametrize("option", ["--out", "--plan", "--report"])
def test_a_file_that_exists_is_refused_before_solving(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """Nothing is solved, and the file is as it was."""
    path = tmp_path / "kept"
    path.write_text("kept", encoding="utf-8")
    monkeypatch.setattr("optplan.solving.solve", lambda *_, **__: pytest.fail("solved"))
    told = run("solve", "boa-one-table", option, path)
    assert (told.code, told.out) == (1, "")
    assert told.err == f"error: {option}: {path} exists; give another path, or --force to replace it\n"
    assert path.read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("option", ["--out", "--plan", "--report"])
@pytest.mark.parametrize("is_file", [False, True])
def test_a_folder_that_does_not_exist_is_refused_before_solving(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, is_file: bool
) -> None:
    """A misspelt folder is named, not made; a file is no folder either."""
    folder = tmp_path / "reslts"
    if is_file:
        folder.touch()
    monkeypatch.setattr("optplan.solving.solve", lambda *_, **__: pytest.fail("solved"))
    told = run("solve", "boa-one-table", option, folder / "result.json")
    assert (told.code, told.out) == (1, "")
    assert told.err == f"error: {option}: there is no folder {folder}; make it, or give another path\n"
    assert not folder.is_dir()


@pytest.mark.parametrize("option", ["-o", "--plan", "--report"])
def test_a_dash_is_no_file(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """Elsewhere it means stdout; here it would silently become the name of a file."""
    monkeypatch.chdir(tmp_path)
    told = run("solve", "boa-one-table", option, "-")
    assert (told.code, told.out) == (2, "")
    assert "'-' does not stand for stdout; give a path, or --json for JSON on stdout\n" in told.err
    assert list(tmp_path.iterdir()) == []


def test_force_replaces(run: Runner, tmp_path: Path) -> None:
    """--force replaces what is there."""
    path = tmp_path / "result.json"
    path.write_text("old", encoding="utf-8")
    assert run("solve", "boa-one-table", "-o", path, "--force").code == 0
    assert read_result(path).instance_name == "boa-one-table"


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_an_output_that_cannot_be_written_still_prints_the_answer(
    run: Runner, tmp_path: Path, json_flag: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is on stdout, the error on stderr, the other file is written, and the exit code is 1."""
    lost, plan, replace = tmp_path / "result.json", tmp_path / "plan.json", Path.replace

    def fill_disk(scratch: Path, target: Path) -> Path:
        if target == lost:
            raise OSError(28, "No space left on device")
        return replace(scratch, target)

    monkeypatch.setattr(Path, "replace", fill_disk)
    told = run("solve", "boa-one-table", "-o", lost, "--plan", plan, "--force", *json_flag)
    assert told.code == 1
    assert "2250" in told.out.replace(",", "")
    assert f"{lost} cannot be written" in told.err
    assert read_plan(plan).objective == pytest.approx(2250.0)


def test_what_is_no_regular_file_is_refused_before_any_work(run: Runner, tmp_path: Path) -> None:
    """--force or not: a folder, a pipe, a device behind a link; each stays what it is."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "null"):
        for force in ([], ["--force"]):
            told = run("solve", "boa-one-table", "-o", path, *force)
            assert (told.code, told.out) == (1, "")
            assert f"error: --out: {path} " in told.err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_infeasible_is_an_answer(run: Runner, tmp_path: Path) -> None:
    """Exit code 3, the reason and the least budget that works; the Result is written, a plan there is not."""
    result, plan = tmp_path / "result.json", tmp_path / "plan.json"
    told = run("solve", "boa-one-table", "--budget", "0.5gpu", "-o", result, "--plan", plan)
    assert told.code == 3
    assert "0.50 GPUs" in told.out.splitlines()[0]
    # Width 1 for one hour, once an hour: one GPU.
    assert "1 GPUs" in told.out
    assert "warning: --plan: no plan was written, because there is none" in told.err
    assert read_result(result).status is Status.INFEASIBLE
    assert not plan.exists()


def test_infeasible_as_json_is_the_result(run: Runner) -> None:
    """With --json the Result carries the relaxation."""
    told = run("solve", "boa-one-table", "--budget", "0.5gpu", "--json")
    assert told.code == 3
    (relaxation,) = told.data["infeasibility"]["relaxations"]
    assert relaxation["least_feasible"] == pytest.approx(1.0)


def test_no_incumbent_exits_with_4(run: Runner, write_instance: InstanceWriter) -> None:
    """A solver that finds nothing and excludes nothing exits with 4, with text and with JSON."""
    # Epoch 1 needs 1 GPU-hour on one GPU and 2/3 on two; epoch 2 needs 1 and 2. Changing width needs 5/3 GPUs, the best
    # single width 2: with 1.8 GPUs there is a plan, and none of one width.
    job = {
        "arrival_rate_per_hour": 1.0,
        "epoch_size_gpu_hours": [1.0, 1.0],
        "speedup": {"v100": {"form": "table", "gpus": [1, 2], "speedup": [[1.0, 3.0], [1.0, 1.0]]}},
    }
    path = write_instance(classes={"job": job}, budget="1.8gpu")
    told = run("solve", path, "--solver", "fixed-width")
    assert told.code == 4
    assert "No plan for 1.80 GPUs on average was found" in told.out
    as_json = run("solve", path, "--solver", "fixed-width", "--json")
    assert (as_json.code, as_json.data["status"]) == (4, "unknown")
    assert run("solve", path).code == 0


def test_a_result_that_does_not_hold_exits_with_5(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed verification is said to be a bug, not the user's fault; --no-verify leaves it out."""
    broken = Check(family="budget", left=2.0, right=1.0, tolerance=0.0, holds=False, message="must not exceed")
    monkeypatch.setattr("optplan.solving.verify", lambda *_: Verification(checks=(broken,)))
    told = run("solve", "boa-one-table")
    assert (told.code, told.out) == (5, "")
    assert told.err.startswith(
        "error: verification failed, a bug of optplan or of an engine; please report it: budget: "
    )
    assert run("solve", "boa-one-table", "--no-verify").code == 0


def test_no_verify_is_said(run: Runner) -> None:
    """An unverified answer says so."""
    assert "not verified" in run("solve", "boa-one-table", "--no-verify").out


def test_a_failing_rival_costs_neither_answer_nor_the_others(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is on stderr and in the exit code; the answer and the other rival are on stdout."""

    def fail(*_: object) -> NoReturn:
        raise EngineError("HiGHS gave up")

    monkeypatch.setattr("optplan.formulations.boa.models.general_engines.solve_highs", fail)
    told = run("solve", "boa-one-table", "--compare", "highs", "--compare", "enumeration")
    assert told.code == 70
    assert told.err == "error: HiGHS gave up\n"
    assert "enumeration" in told.out


def test_a_missing_extra_is_told_before_solving(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the drawing library a report is refused with the command that brings it."""

    def fail() -> NoReturn:
        raise MissingExtraError("plotly", "plot")

    monkeypatch.setattr("optplan.reporting.pages.load_plotly", fail)
    monkeypatch.setattr("optplan.solving.solve", lambda *_, **__: pytest.fail("solved"))
    told = run("solve", "boa-one-table", "--report", tmp_path / "report.html")
    assert (told.code, told.out) == (2, "")
    assert "optplan[plot]" in told.err


def change(data: dict[str, Any], **changes: object) -> dict[str, Any]:
    """Return a class with some fields changed."""
    return {"job": {**data["classes"]["job"], **changes}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"formulation": "boa", ', "mine.json:1: is not JSON"),
        ('{"formulation": "boa", "name": "a", "name": "b"}', "names 'name' twice in one object"),
        ('{"formulation": "bao"}', "formulation: got 'bao'; did you mean 'boa'?"),
        ('{"name": "a"}', "mine.json: formulation: is missing; an instance names one of: boa"),
        ("[1, 2]", "mine.json: holds a list, not an instance"),
    ],
)
def test_broken_files_exit_with_1(run: Runner, tmp_path: Path, text: str, message: str) -> None:
    """A file that is no instance is refused with its name and what is wrong."""
    path = tmp_path / "mine.json"
    path.write_text(text, encoding="utf-8")
    told = run("solve", path)
    assert (told.code, told.out) == (1, "")
    assert message in told.err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bugdet": "1gpu"}, "mine.json: bugdet: unknown field 'bugdet'; did you mean 'budget'?"),
        ({"budget": "1apples"}, "'1apples' has no known unit"),
        ({"version": 2}, "mine.json: version: got 2"),
        ({"classes": {}}, "is empty; add at least one job class"),
    ],
)
def test_wrong_fields_exit_with_1(
    run: Runner, write_instance: InstanceWriter, changes: dict[str, object], message: str
) -> None:
    """A wrong field is named with its path, the value, and what to do."""
    told = run("solve", write_instance(**changes), "--json")
    assert (told.code, told.out) == (1, "")
    assert message in told.error["message"]


def test_a_wrong_field_has_its_path_in_json(run: Runner, write_instance: InstanceWriter) -> None:
    """The error object names the field by its path."""
    path = write_instance()
    data = json.loads(path.read_text(encoding="utf-8"))
    told = run("solve", write_instance(classes=change(data, rescale=3.0)), "--json")
    assert told.code == 1
    assert told.error["path"] == "mine.json: classes.job.rescale"
    assert "did you mean 'rescale_s'?" in told.error["message"]


def test_a_missing_file_and_a_missing_budget(run: Runner, write_instance: InstanceWriter) -> None:
    """No such file is the data's fault, no budget the call's."""
    told = run("solve", "nowhere.json")
    assert told.code == 1
    assert "nowhere.json: no such file; check the path" in told.err
    path = write_instance()
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["budget"]
    path.write_text(json.dumps(data), encoding="utf-8")
    told = run("solve", path)
    assert told.code == 2
    assert "--budget 120gpu" in told.err


def test_yaml_is_read(run: Runner, tmp_path: Path, write_instance: InstanceWriter) -> None:
    """An instance may be YAML, and its duplicate keys are found too."""
    path = tmp_path / "mine.yaml"
    text = write_instance().read_text(encoding="utf-8")  # JSON is YAML
    path.write_text(text, encoding="utf-8")
    assert run("solve", path).code == 0
    path.write_text("name: a\nname: b\n", encoding="utf-8")
    told = run("solve", path)
    assert told.code == 1
    assert "names 'name' twice in one object" in told.err


def test_warnings_about_data_are_shown_once(run: Runner) -> None:
    """How a table is understood is said once on stderr, without file names of the library; stdout stays JSON."""
    told = run("solve", "random-boa", "--problem", "continuous", "--compare", "layered-paths", "--json")
    assert told.code == 0
    assert len(told.data) == 2
    assert told.err.count("warning: ") == 1
    assert "concave hull" in told.err
    assert ".py" not in told.err


@pytest.mark.parametrize(("file", "told"), [("kernel.py", True), ("kernel.abi3.so", False)])
def test_who_has_no_compiler_is_told_once_a_solve_is_slow(
    run: Runner, monkeypatch: pytest.MonkeyPatch, file: str, *, told: bool
) -> None:
    """One line says why it takes long and what helps; nothing where the kernel is compiled."""
    from optplan.cli import solving
    from optplan.solvers.paths import kernel

    monkeypatch.setattr(solving, "_SLOW_S", 0.0)
    monkeypatch.setattr(kernel, "__file__", file)
    shown = run("solve", "boa-one-table")
    assert shown.code == 0
    assert shown.err.count("installed without a C compiler, and takes 20 times as long: install one") == told
