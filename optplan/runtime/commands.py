"""Commands as trainables: a program that is run with environment variables and reports by a file.

========================  ====================================================================================
variable                  meaning
========================  ====================================================================================
``OPTPLAN_CONFIG``        what the trial tries, as JSON; ``{name}`` in the command line is replaced by its value
``OPTPLAN_ITERATIONS``    iterations in all after which it is to end; empty where the clock ends it
``OPTPLAN_DONE``          iterations that the trial has done
``OPTPLAN_CHECKPOINT``    folder to go on from; empty where it begins anew
``OPTPLAN_SAVE``          folder to store its state in before it ends
``OPTPLAN_METRICS``       file to which it appends a line of JSON after each iteration, with its metrics
``OPTPLAN_GPUS``          GPUs that it has
========================  ====================================================================================

It ends with exit code 0 after its iterations. When it gets SIGTERM it stores its state and ends within the grace.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from optplan.errors import DataError
from optplan.runtime.checkpoints import store
from optplan.runtime.records import plain
from optplan.runtime.trial_files import OUTCOME, PROGRESS, STOP, bound_log, read_new_lines, write

#: Seconds between two looks at what a command has reported.
_LOOK_S = 0.05


def run_command(folder: Path, operation: Mapping[str, Any]) -> int:
    """Run the command of an operation in its folder, and return its exit code.

    Raises
    ------
    DataError
        When there is no such program, or a line of its metrics is none.
    """
    root, save = Path(operation["root"]), folder / "save"
    shutil.rmtree(save, ignore_errors=True)
    save.mkdir()
    metrics_file = folder / "metrics.jsonl"
    metrics_file.unlink(missing_ok=True)
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            _fill_in(operation["command"], operation["configuration"]),
            env={**os.environ, **_name_variables(operation, root, save, metrics_file)},
            cwd=operation["folder"],
        )
    except OSError as error:
        problem = f"{operation['command']!r} cannot be started ({error.strerror})"
        raise DataError("command", problem, "give a program that is there") from None
    lines = _Lines(metrics_file, folder / PROGRESS, operation)
    ended = False
    while process.poll() is None:
        late = operation["until_wall"] is not None and time.time() >= operation["until_wall"]
        if not ended and (late or (folder / STOP).exists()):
            process.terminate()
            ended = True
        lines.read()
        bound_log(Path(operation["log"]))
        time.sleep(_LOOK_S)
    lines.read()
    if process.returncode != 0 and not ended:
        print(f"the command ended with exit code {process.returncode}", file=sys.stderr)  # noqa: T201 - the trial's log
        return 1
    checkpoint = operation["checkpoint"]
    if any(save.iterdir()):
        name = f"trials/{operation['trial']}/checkpoint-{lines.iterations:06d}-{operation['attempt']:03d}"
        checkpoint = asdict(store(root, name, lambda place: _copy(save, place)))
    took_s = time.monotonic() - begun
    done = lines.iterations - operation["from_iterations"]
    timings = {"steps": float(done), **({"step_s": took_s / done} if done else {})}
    target = operation["to_iterations"]
    complete = not ended or operation["until_wall"] is not None or (target is not None and lines.iterations >= target)
    outcome = {
        "iterations": lines.iterations,
        "metrics": lines.metrics,
        "checkpoint": checkpoint,
        "complete": complete,
        "timings": timings,
    }
    write(folder / OUTCOME, outcome)
    return 0


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)


class _Lines:
    """The lines that a command has reported so far."""

    def __init__(self, metrics_file: Path, progress: Path, operation: Mapping[str, Any]) -> None:
        self._file = metrics_file
        self._progress = progress
        self._metric = operation["metric"]
        self._offset = 0
        self._seen: float | None = None
        self.iterations: int = operation["from_iterations"]
        self.metrics: Mapping[str, Any] = operation["metrics"]

    def read(self) -> None:
        """Read the lines that are new and complete, and hand them on."""
        lines, self._offset = read_new_lines(self._file, self._offset)
        if not lines:
            return
        # Lines that are seen together share the time since the last ones; those before the first took the start, too.
        seen = time.monotonic()
        each_s = None if self._seen is None else (seen - self._seen) / len(lines)
        self._seen = seen
        with self._progress.open("a", encoding="utf-8") as progress:
            for line in lines:
                self._take(line.decode())
                shown = {"iterations": self.iterations, "metrics": self.metrics, "seconds": each_s}
                progress.write(json.dumps(shown) + "\n")

    def _take(self, line: str) -> None:
        try:
            metrics = json.loads(line)
        except json.JSONDecodeError:
            metrics = None
        if not isinstance(metrics, dict) or self._metric not in metrics:
            fix = f'write one object a line, such as {{"{self._metric}": 0.5}}'
            raise DataError("command", f"wrote {line.strip()[:80]!r} to OPTPLAN_METRICS", fix)
        self.metrics, self.iterations = plain(metrics), self.iterations + 1


def _fill_in(command: str, configuration: Mapping[str, Any]) -> list[str]:
    parts = []
    for part in shlex.split(command):
        for name, value in configuration.items():
            part = part.replace(f"{{{name}}}", str(value))  # noqa: PLW2901 - every name in turn
        parts.append(part)
    return parts


def _name_variables(operation: Mapping[str, Any], root: Path, save: Path, metrics: Path) -> dict[str, str]:
    target, checkpoint = operation["to_iterations"], operation["checkpoint"]
    return {
        "OPTPLAN_CONFIG": json.dumps(operation["configuration"]),
        "OPTPLAN_ITERATIONS": "" if target is None else str(target),
        "OPTPLAN_DONE": str(operation["from_iterations"]),
        "OPTPLAN_CHECKPOINT": "" if checkpoint is None else str(root / checkpoint["path"]),
        "OPTPLAN_SAVE": str(save),
        "OPTPLAN_METRICS": str(metrics),
        "OPTPLAN_GPUS": str(operation["gpus"]),
    }
