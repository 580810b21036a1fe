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

It ends with exit code 0 after its iterations. When it gets SIGTERM it stores its state and ends within the grace. What
it has started and left behind is killed. Lines with the same ``training_iteration`` are one iteration.
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
from functools import partial
from pathlib import Path
from typing import Any

from optplan.errors import DataError
from optplan.execution.checkpoints import bring, leave, store
from optplan.execution.records import plain
from optplan.execution.trial_files import OUTCOME, PROGRESS, STOP, read_new_lines

#: Seconds between two looks at what a command has reported.
_LOOK_S = 0.05


def run_command(folder: Path, operation: Mapping[str, Any]) -> int:
    """Run the command of an operation in its folder, and return its exit code."""
    root, save = Path(operation["root"]), folder / "save"
    shutil.rmtree(save, ignore_errors=True)
    save.mkdir()
    metrics_file = folder / "metrics.jsonl"
    metrics_file.unlink(missing_ok=True)
    wanted = time.monotonic() - (time.time() - operation["wanted_wall"])
    try:
        process = subprocess.Popen(
            _fill_in(operation["command"], operation["configuration"]),
            env={**os.environ, **_name_variables(operation, save, metrics_file)},
            cwd=operation["folder"],
        )
    except OSError as error:
        problem = f"{operation['command']!r} cannot be started ({error.strerror})"
        raise DataError("command", problem, "give a program that is there") from None
    lines = Lines(metrics_file, folder / PROGRESS, operation)
    ended = False
    while process.poll() is None:
        late = operation["until_wall"] is not None and time.time() >= operation["until_wall"]
        if not ended and (late or (folder / STOP).exists()):
            process.terminate()
            ended = True
        lines.read(time.monotonic())
        time.sleep(_LOOK_S)
    ended_at = time.monotonic()
    lines.read(ended_at)
    ended = ended or (folder / STOP).exists()  # who asks everybody to end has asked the command, too
    if process.returncode != 0 and not ended:
        print(f"the command ended with exit code {process.returncode}", file=sys.stderr)  # noqa: T201 - the trial's log
        return 1
    checkpoint = operation["checkpoint"]
    if any(save.iterdir()):
        name = f"trials/{operation['trial']}/checkpoint-{lines.iterations:06d}-{operation['attempt']:03d}"
        copy = partial(shutil.copytree, save, dirs_exist_ok=True)
        checkpoint = asdict(store(root, name, copy, operation["storage"]))
    target = operation["to_iterations"]
    complete = not ended or operation["until_wall"] is not None or (target is not None and lines.iterations >= target)
    outcome = {
        "iterations": lines.iterations,
        "metrics": lines.metrics,
        "checkpoint": checkpoint,
        "complete": complete,
        "timings": lines.time_steps(wanted) | {"save_s": time.monotonic() - ended_at},
    }
    leave(folder, OUTCOME, outcome, operation)
    return 0


class Lines:
    """The lines that a command has reported so far."""

    def __init__(self, metrics_file: Path, progress: Path, operation: Mapping[str, Any]) -> None:
        self._file = metrics_file
        self._progress = progress
        self._metric = operation["metric"]
        self._offset = 0
        self._numbers: set[int] = set()
        #: When lines were seen first, and how many; and when last.
        self._first: tuple[float, int] | None = None
        self._seen: float | None = None
        self._from: int = operation["from_iterations"]
        self.iterations: int = operation["from_iterations"]
        self.metrics: Mapping[str, Any] = operation["metrics"]

    def time_steps(self, wanted: float) -> dict[str, float]:
        """Return how many iterations there were, and, apart from one another, what they and the start took.

        That is told from lines that were seen at different times; where all came at once, ``step_s`` is left out, and
        ``start_s`` is until they came.
        """
        done = self.iterations - self._from
        if self._first is None or self._seen is None:
            return {"steps": float(done)}
        first, at_first = self._first
        if done == at_first:
            return {"steps": float(done), "start_s": first - wanted}
        step_s = (self._seen - first) / (done - at_first)
        return {"steps": float(done), "start_s": max(0.0, first - wanted - at_first * step_s), "step_s": step_s}

    def read(self, seen: float) -> None:
        """Read the lines that are new and complete at a time, and hand them on."""
        lines, self._offset = read_new_lines(self._file, self._offset)
        taken = [(self.iterations, self.metrics) for line in lines if self._take(line.decode())]
        if not taken:
            return
        # Lines that are seen together share the time since the last ones; those before the first took the start, too.
        each_s = None if self._seen is None else (seen - self._seen) / len(taken)
        self._seen, self._first = seen, self._first or (seen, len(taken))
        with self._progress.open("a", encoding="utf-8") as progress:
            for iterations, metrics in taken:
                progress.write(json.dumps({"iterations": iterations, "metrics": metrics, "seconds": each_s}) + "\n")

    def _take(self, line: str) -> bool:
        """Take note of a line; say whether it is a new iteration's."""
        try:
            metrics = json.loads(line)
        except json.JSONDecodeError:
            metrics = None
        if not isinstance(metrics, dict) or self._metric not in metrics:
            fix = f'write one object a line, such as {{"{self._metric}": 0.5}}'
            raise DataError("command", f"wrote {line.strip()[:80]!r} to OPTPLAN_METRICS", fix)
        metrics = plain(metrics)
        number = metrics.get("training_iteration")
        if isinstance(number, int):
            if number in self._numbers:
                return False
            self._numbers.add(number)
        self.metrics, self.iterations = metrics, self.iterations + 1
        return True


def _fill_in(command: str, configuration: Mapping[str, Any]) -> list[str]:
    parts = []
    for part in shlex.split(command):
        for name, value in configuration.items():
            part = part.replace(f"{{{name}}}", str(value))  # noqa: PLW2901 - every name in turn
        parts.append(part)
    return parts


def _name_variables(operation: Mapping[str, Any], save: Path, metrics: Path) -> dict[str, str]:
    target, checkpoint = operation["to_iterations"], bring(operation)
    return {
        "OPTPLAN_CONFIG": json.dumps(operation["configuration"]),
        "OPTPLAN_ITERATIONS": "" if target is None else str(target),
        "OPTPLAN_DONE": str(operation["from_iterations"]),
        "OPTPLAN_CHECKPOINT": "" if checkpoint is None else str(checkpoint),
        "OPTPLAN_SAVE": str(save),
        "OPTPLAN_METRICS": str(metrics),
        "OPTPLAN_GPUS": str(operation["gpus"]),
    }
