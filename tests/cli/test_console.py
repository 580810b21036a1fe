"""Progress: only on a terminal, only after a while, and nothing of it stays."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optplan.cli import console
from optplan.cli.console import Progress
from optplan.cli.failures import report
from optplan.errors import DataError
from optplan.progress import Event
from optplan.reporting.tables import write_parts
from tests.conftest import Later

if TYPE_CHECKING:
    import nbclient
    import nbformat
else:
    nbclient, nbformat = map(Later, ("nbclient", "nbformat"))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def wait_for_timers() -> None:
    """Wait until delayed work has been done."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal of 80 columns; not a fixture, because pytest replaces stderr after those."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return stream


def test_the_line_says_what_is_known() -> None:
    """Stage, objective and bound with their unit, and the part that is done."""
    progress = Progress("solver highs", "s")
    assert progress.line().startswith("solver highs, ")
    progress.listen(Event("labels", 2.0, objective=2250.0, bound=2000.5, fraction=0.25))
    assert progress.line().endswith(" | labels | objective 2250 s | bound 2000.5 s | 25%")
    progress.listen(Event("bound", 2.0))
    assert progress.line().endswith("s | bound")


@pytest.mark.slow
def test_a_notebook_shows_the_line_below_its_cell_and_removes_it() -> None:
    """One output is drawn anew while work goes on, and is empty in the end; there is no terminal."""
    cell = (
        "import time, optplan\nfrom optplan.progress import Event\nwith optplan.Progress('counting') as progress:\n"
        "    for stage in ('before', 'first', 'second'):\n"
        "        progress.listen(Event(stage, 0.0))\n        time.sleep(1.1)\n"
        "        if stage == 'first':\n            display(progress._cell.display_id)\n"
        "print(progress.line().split(' | ')[1])"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    line, drawn, printed = notebook.cells[0].outputs
    assert line["output_type"] == drawn["output_type"] == "display_data"
    assert line["data"]["text/plain"] == ""
    assert printed["text"] == "second\n"


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done within the delay leaves a terminal untouched."""
    terminal = open_terminal(monkeypatch)
    with Progress("quick") as progress:
        progress.listen(Event("bound", 0.0))
    wait_for_timers()
    assert terminal.getvalue() == ""


def test_long_work_shows_one_line_and_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the delay the line is drawn; at the end the last thing sent erases it."""
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(console, "_DELAY_S", 0.0)
    with Progress("slow [bold]", "s") as progress:
        progress.listen(Event("labels", 2.0, objective=1.0))
        wait_for_timers()
    shown = terminal.getvalue()
    assert "slow [bold], 0 s | labels | objective 1 s" in shown
    assert shown.rindex("\x1b[2K") > shown.rindex("slow")


def test_a_stream_that_is_no_terminal_stays_empty(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs and pipes get no progress, however long it takes."""
    monkeypatch.setattr(console, "_DELAY_S", 0.0)
    with Progress("slow") as progress:
        progress.listen(Event("labels", 2.0))
        wait_for_timers()
    assert capsys.readouterr().err == ""


def test_no_line_ends_in_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables pad their last column and texts break after a space, in colours or without: the reader gets neither."""
    table = Table("name", "said", box=None)
    table.add_row("a", "long enough to be wide")
    table.add_row("b", "short")
    console.print_answer(table, "word " * 50)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert "b     short" in [line.strip() for line in lines]
    colored = Console(force_terminal=True, color_system="standard", width=20)
    assert write_parts(colored, [Text("a b   ", style="bold")]) == "\x1b[1ma b\x1b[0m\n"


def test_names_are_no_emoji_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands between colons or brackets in a user's name is shown as it is, in texts and in tables."""
    table = Table("name", box=None)
    table.add_row(":warning:")
    console.print_answer("class :x: of [red]team[/red]", table)
    assert capsys.readouterr().out.split() == ["class", ":x:", "of", "[red]team[/red]", "name", ":warning:"]


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR (no-color.org) warnings and errors on a terminal are plain; without it they are not."""
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    console.warn("careful")
    report(DataError("budget", "is missing", "add it"))
    assert terminal.getvalue() == "warning: careful\nerror: budget: is missing; add it\n"
    monkeypatch.delenv("NO_COLOR")
    console.warn("careful")
    assert "\x1b[33mwarning:\x1b[0m careful" in terminal.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_files_are_written_when_the_reader_of_stdout_has_left(tmp_path: Path, form: tuple[str, ...]) -> None:
    """``optplan ... -o r.json | head``: the answer has nobody to read it, and the files were asked for all the same."""
    gone, stdout = os.pipe()
    os.close(gone)
    command = [sys.executable, "-m", "optplan.cli", "solve", "boa-one-table", *form]
    files = ["-o", str(tmp_path / "r.json"), "--plan", str(tmp_path / "p.json")]
    ran = subprocess.run([*command, *files], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    os.close(stdout)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines() == [f"wrote {tmp_path / 'r.json'}", f"wrote {tmp_path / 'p.json'}"]
    assert (tmp_path / "r.json").is_file()
    assert (tmp_path / "p.json").is_file()
