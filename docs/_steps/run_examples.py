"""Run the commands and the Python of the pages, and compare what they print with what the pages show.

In document order and in one folder for each page: a block with a title is written to the file of that name, another
``python`` block is executed, ``pip install ./FOLDER`` in a ``bash`` block makes a package that the page has written
known until its end, and each ``$ optplan ...`` of a ``console`` block goes through the command line. What is printed
has to be what the page shows below the command, or in the ``text`` block below the Python. Times and versions may
differ, and a line ``...`` stands for lines that the page leaves out. Other blocks are not looked at.

``python docs/_steps/run_examples.py [PAGE ...]`` lists the differences; with ``--write``, what is printed goes into the
pages.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from optplan.cli import main as run_command_line
from optplan.formulations import formulations

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
#: Columns of the tables on the pages.
COLUMNS = 110
#: Where the pages expect what others published, and what the folder of public data calls the same files.
ARTIFACTS = {"artifacts/sia-simulator": "sia", "artifacts/spot-traces": "spot-traces"}

_FENCE = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
#: What differs between machines, days and releases.
_VARIABLE = (
    (re.compile(r"\boptplan \d[\w.+]*"), "optplan VERSION"),
    (re.compile(r"^time .*"), "time"),
    # Long work says now and then how far it is: on a busy machine, what is short elsewhere does, too.
    (re.compile(r"^profiling, \d+ s\b.*"), ""),
    (re.compile(r"\d[\d.]* (?:ms|µs)\b"), "TIME"),
    (re.compile(r"\d[\d.]* s$"), "TIME"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"\s+"), " "),
)
_LEFT_OUT = "..."
_INSTALL = re.compile(r"^pip install \./(?P<folder>\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Printed:
    """What a command or a block of Python printed, and what its page shows."""

    command: str
    shown: str
    printed: str

    @property
    def agrees(self) -> bool:
        """Whether the two are the same but for times, versions and lines left out."""
        return _agree(_normalise(self.shown), _normalise(self.printed))


def pages() -> list[Path]:
    """List the pages that have something to run."""
    candidates = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in candidates if any(True for _ in _runnable(page.read_text(encoding="utf-8")))]


def run_page(page: Path, folder: Path, data: Path | None = None) -> tuple[list[Printed], str]:
    """Run a page.

    Parameters
    ----------
    page
        A Markdown file.
    folder
        An empty folder to run in.
    data
        Folder of the public data; without it, blocks that need it are passed over.

    Returns
    -------
    printed : list of Printed
        In the order of the page.
    text : str
        The page with what was printed put in, except where it leaves out lines.
    """
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    if data is not None:
        for artifact, in_data in ARTIFACTS.items():
            (folder / artifact).parent.mkdir(parents=True, exist_ok=True)
            (folder / artifact).symlink_to(data / in_data, target_is_directory=True)
    text = page.read_text(encoding="utf-8")
    runner = _Runner(with_data=data is not None)
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(COLUMNS)
    try:
        with contextlib.chdir(folder):
            text = _FENCE.sub(runner.run, text)
    finally:
        runner.uninstall()
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    return runner.printed, text


class _Runner:
    """Runs one block after the other; the blocks of a page share variables and exit code."""

    def __init__(self, *, with_data: bool) -> None:
        self.printed: list[Printed] = []
        self._with_data = with_data
        self._variables: dict[str, object] = {"__name__": "__main__"}
        self._exit_code = 0
        #: Folders on the path of imports.
        self._installed: list[Path] = []
        #: Start of the code that waits for its text block, and what it printed.
        self._waiting: tuple[str, str, int] | None = None

    def run(self, block: re.Match[str]) -> str:
        """Run a block, and return it with what was printed."""
        kind, code = block["kind"], block["code"]
        waiting, self._waiting = self._waiting, None
        if kind == "text" and waiting is not None and not block.string[waiting[2] : block.start()].strip():
            command, printed, _ = waiting
            return self._replace(block, self._compare(command, code, printed))
        if block["title"]:
            Path(block["title"]).parent.mkdir(parents=True, exist_ok=True)
            Path(block["title"]).write_text(code, encoding="utf-8")
        elif kind == "bash":
            for found in _INSTALL.finditer(code):
                self._install(Path(found["folder"]).resolve())
        elif kind == "python":
            self._waiting = (code.splitlines()[0], self._execute(code), block.end())
        elif kind == "console" and (self._with_data or not any(artifact in code for artifact in ARTIFACTS)):
            return self._replace(block, "".join(self._run_commands(code)))
        return block[0]

    def _install(self, folder: Path) -> None:
        """Put a package on the path, with the metadata that an installation in place would have."""
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        metadata = folder / f"{project['name']}-{project['version']}.dist-info"
        metadata.mkdir()
        known = f"Name: {project['name']}\nVersion: {project['version']}\n"
        (metadata / "METADATA").write_text(known, encoding="utf-8")
        groups = (
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in project["entry-points"].items()
        )
        (metadata / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
        sys.path.insert(0, str(folder))
        self._installed.append(folder)
        formulations.cache_clear()

    def uninstall(self) -> None:
        """Forget the packages that the page installed."""
        for folder in self._installed:
            sys.path.remove(str(folder))
            for name, module in list(sys.modules.items()):
                if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
                    del sys.modules[name]
            formulations.cache_clear()

    def _execute(self, code: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, "<page>", "exec"), self._variables)
        return output.getvalue()

    def _run_commands(self, code: str) -> Iterator[str]:
        for part in re.split(r"^(?=\$ )", code, flags=re.MULTILINE):
            if not part:
                continue
            command = re.match(r"\$ (?:.*\\\n)*.*\n", part)
            if command is None:
                message = f"a console block has to start with a command: {part!r}"
                raise ValueError(message)
            yield command[0]
            yield self._compare(command[0], part[command.end() :], self._run_command(command[0]))

    def _run_command(self, command: str) -> str:
        # A shell joins continued lines before it splits words; shlex would keep the line break as a word.
        words = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))
        if words == ["echo", "$?"]:
            return f"{self._exit_code}\n"
        if words[0] != "optplan":
            message = f"only optplan and `echo $?` can be run, not {command!r}; use a block of another kind"
            raise ValueError(message)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            self._exit_code = run_command_line(words[1:])
        return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())

    def _compare(self, command: str, shown: str, printed: str) -> str:
        self.printed.append(Printed(command.strip(), shown, printed))
        return shown if _LEFT_OUT in shown.splitlines() else printed

    @staticmethod
    def _replace(block: re.Match[str], code: str) -> str:
        start, end = block.span("code")
        return block.string[block.start() : start] + code + block.string[end : block.end()]


def _runnable(text: str) -> Iterator[str]:
    return (block["code"] for block in _FENCE.finditer(text) if block["kind"] in ("python", "console"))


def _normalise(text: str) -> list[str]:
    lines = text.splitlines()
    for pattern, replacement in _VARIABLE:
        lines = [pattern.sub(replacement, line) for line in lines]
    return [line.strip() for line in lines if line.strip()]


def _agree(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines are the same, where a line of three dots stands for any lines."""
    if _LEFT_OUT not in shown:
        return shown == printed
    first = shown.index(_LEFT_OUT)
    rest = shown[first + 1 :]
    starts = range(first, len(printed) - len([line for line in rest if line != _LEFT_OUT]) + 1)
    return shown[:first] == printed[:first] and any(_agree(rest, printed[start:]) for start in starts)


def main() -> int:
    """Run every page; return 1 when something differs."""
    parser = argparse.ArgumentParser(description="Run the commands and the Python of the pages.")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to run; all of them, unless given")
    parser.add_argument("--write", action="store_true", help="put what is printed into the pages")
    parser.add_argument("--data", type=Path, help="folder of the public data")
    arguments = parser.parse_args()
    different = 0
    for page in [page.resolve() for page in arguments.pages] or pages():
        with tempfile.TemporaryDirectory() as folder:
            data = None if arguments.data is None else arguments.data.resolve()
            printed, text = run_page(page, Path(folder), data)
        wrong = [each for each in printed if not each.agrees]
        different += len(wrong)
        sys.stdout.write(f"{page.relative_to(ROOT)}: {len(printed)} outputs, {len(wrong)} differ\n")
        for each in wrong:
            sys.stdout.write(f"  {each.command}\n")
        if arguments.write and wrong:
            page.write_text(text, encoding="utf-8")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
