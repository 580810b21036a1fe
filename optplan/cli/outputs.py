"""Files that a command writes: refused before any work where they exist, written after the answer is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from optplan.cli.console import note
from optplan.cli.failures import report
from optplan.errors import OptplanError, OutputError, UsageError


class Outputs:
    """The output files of one command.

    Parameters
    ----------
    paths
        By the option that names them; None where the option was not given.
    force
        Whether files that exist may be replaced; kept for those who write.
    as_json
        How failures are reported.

    Raises
    ------
    OutputError
        When a file exists and may not be replaced, or its folder does not exist.
    UsageError
        When two options name the same file, or one names stdout.
    """

    def __init__(self, paths: Mapping[str, Path | None], *, force: bool, as_json: bool) -> None:
        from optplan.instances.files import require_target  # loads NumPy, which showing help does not need

        self._paths = {option: path for option, path in paths.items() if path is not None}
        self.force = force
        self._as_json = as_json
        self._failure = 0
        taken: dict[Path, str] = {}
        for option, path in self._paths.items():
            if str(path) == "-":
                message = f"{option}: '-' does not stand for stdout; give a path, or --json for JSON on stdout"
                raise UsageError(message)
            if not path.parent.is_dir():
                message = f"{option}: there is no folder {path.parent}; make it, or give another path"
                raise OutputError(message)
            other = taken.setdefault(require_target(path, overwrite=force, what=option), option)
            if other != option:
                message = f"{other} and {option} both name {path}; give each its own file"
                raise UsageError(message)

    def __contains__(self, option: str) -> bool:
        """Whether the user asked for this file."""
        return option in self._paths

    def save(self, option: str, write: Callable[[Path], None]) -> None:
        """Write one of the files, if it was asked for, and say so; a failure is reported and remembered.

        Parameters
        ----------
        write
            Takes the path.
        """
        path = self._paths.get(option)
        if path is None:
            return
        try:
            write(path)
        except OptplanError as error:
            self._failure = self._failure or report(error, as_json=self._as_json)
        else:
            note(f"wrote {path}")

    def exit_code(self, code: int) -> int:
        """Return the command's exit code: that of the first file that could not be written, else the given one."""
        return self._failure or code
