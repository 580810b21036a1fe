"""What a command prints and writes: files that exist are refused before any work, and written after the answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optplan
from optplan.cli.console import note, print_answer, print_json
from optplan.cli.failures import report
from optplan.errors import OptplanError, OutputError, UsageError

if TYPE_CHECKING:
    from optplan.reporting.pages import Page
    from optplan.schema import FrozenModel


class Outputs:
    """What one command prints, as JSON or not, and writes: by option the paths, refused at once if they have to be."""

    def __init__(self, paths: Mapping[str, Path | None], *, force: bool, as_json: bool) -> None:
        from optplan.instances.files import require_target  # loads NumPy, which showing help does not need

        self._paths = {option: path for option, path in paths.items() if path is not None}
        self.force = force
        self.as_json = as_json
        self._unwritten = self._forgiven = 0
        taken: dict[Path, str] = {}
        for option, path in self._paths.items():
            if str(path) == "-":
                raise UsageError(f"{option}: '-' does not stand for stdout; give a path, or --json for JSON on stdout")
            if not path.parent.is_dir():
                raise OutputError(f"{option}: there is no folder {path.parent}; make it, or give another path")
            other = taken.setdefault(require_target(path, overwrite=force, what=option), option)
            if other != option:
                raise UsageError(f"{other} and {option} both name {path}; give each its own file")
        if "--report" in self:
            from optplan.reporting.pages import require_packages

            require_packages()

    def __contains__(self, option: str) -> bool:
        """Whether the user asked for this file."""
        return option in self._paths

    def path(self, option: str) -> Path | None:
        """Return the file that an option names, if any."""
        return self._paths.get(option)

    def answer(self, data: FrozenModel | Mapping[str, Any] | list[Any], show: Callable[[], Iterable[Any]]) -> None:
        """Print a record or plain data as JSON where that is asked for, else what shows it; that is made on use."""
        if self.as_json:
            print_json(_to_plain(data))
        else:
            print_answer(*show())

    def deliver(self, data: FrozenModel | Mapping[str, Any] | list[Any], show: Callable[[], Iterable[Any]]) -> int:
        """Print a record or plain data, write it as JSON where ``--out`` says, and return the exit code."""
        self.answer(data, show)
        self.save_json(data)
        return self.exit_code(0)

    def save_json(self, data: FrozenModel | Mapping[str, Any] | list[Any], option: str = "--out") -> None:
        """Write a record or plain data as JSON; see :meth:`save`."""
        from optplan.instances.files import format_json

        self.save_text(option, lambda _: format_json(_to_plain(data)) + "\n")

    def save_table(
        self,
        data: Callable[[], Mapping[str, Any] | list[Any]],
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
    ) -> None:
        """Write a table to ``--out``: as CSV where its name ends so, else plain data as JSON; see :meth:`save`."""
        from optplan.instances.files import format_json

        self.save_text("--out", lambda path: format_csv(columns, rows) if is_csv(path) else format_json(data()) + "\n")

    def save_text(self, option: str, make: Callable[[Path], str]) -> None:
        """Write a text that is made on use, given where it goes; see :meth:`save`."""
        from optplan.instances.files import write_text

        self.save(option, lambda path: write_text(make(path), path, overwrite=self.force))

    def save_page(self, option: str, make: Callable[[], Page]) -> None:
        """Write a page that is made on use; see :meth:`save`."""
        self.save(option, lambda path: optplan.write_page(path, make(), overwrite=self.force))

    def save(self, option: str, write: Callable[[Path], None]) -> None:
        """Write one of the files, if it was asked for, and say so; a failure is reported and remembered."""
        path = self._paths.get(option)
        if path is None:
            return
        try:
            write(path)
        except OptplanError as error:
            self._unwritten = self._unwritten or report(error, as_json=self.as_json)
        else:
            note(f"wrote {path}")

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Report an error of a block beside the answer, which costs nothing but the exit code, if that is zero."""
        try:
            yield
        except OptplanError as error:
            self._forgiven = self._forgiven or report(error, as_json=self.as_json)

    def exit_code(self, code: int) -> int:
        """Return the command's exit code: of the first file that was not written, the given one, what was forgiven."""
        return self._unwritten or code or self._forgiven


def _to_plain(data: FrozenModel | Mapping[str, Any] | list[Any]) -> Mapping[str, Any] | list[Any]:
    return data if isinstance(data, Mapping | list) else data.to_json_data()


def is_csv(path: Path | None) -> bool:
    """Whether a table is to be written as CSV, and not as JSON."""
    return path is not None and path.suffix.lower() == ".csv"


def format_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def deliver(instance: optplan.Instance, outputs: Outputs) -> int:
    """Show an instance and write it; return the exit code."""
    from optplan.reporting.presentation import presenter_of

    return outputs.deliver(instance, lambda: presenter_of(instance).present_instance(instance))
