"""What users write: a class, a generator or a command, and how each of them is stepped, stored and restored.

A *class* has ``setup(configuration)``, ``step() -> metrics``, ``save_checkpoint(folder)`` and
``load_checkpoint(folder)``; one that is written for Ray Tune's ``Trainable`` works unchanged. A *generator* takes the
configuration and a :class:`Session`, and yields metrics after each iteration. A *command* is a program that is run with
environment variables and reports by a file, as docs/executors-local.md says. It ends with exit code 0 after its
iterations; when it gets SIGTERM it stores its state and ends within the grace. What it has started and left behind is
killed. Lines with the same ``training_iteration`` are one iteration.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from optplan.errors import DataError, UsageError, nearest_name_hint, show_value
from optplan.execution.records import plain
from optplan.execution.trial_files import OUTCOME, PROGRESS, STOP, Storage, bring, read_new_lines, store, write

Configuration = Mapping[str, Any]


@dataclass
class Session:
    """What a generator is given besides its configuration."""

    checkpoint: Path | None = None  #: Folder with the state from which to go on; None where the trial begins anew.
    iterations: int = 0  #: That the trial has done.
    gpus: int = 1  #: That it has.
    #: Set it to a function that stores the state in a folder. Where it is not set, a trial that goes on is run from its
    #: beginning, up to where it was.
    save: Callable[[Path], None] | None = None


def import_trainable(target: str, folder: Path, path: str = "train") -> object:
    """Import ``module:name`` or ``path/to/file.py:name``, looked for in a folder first; else DataError of a path."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise DataError(path, f"got {target!r}", "give module:Trainable, or path/to/file.py:Trainable")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found: Any = _import_file(folder / place, path) if place.endswith(".py") else importlib.import_module(place)
    except ImportError as error:
        problem = f"{place} cannot be imported ({error})"
        raise DataError(path, problem, "is it installed, or in the folder?") from None
    for part in name.split("."):
        owner, found = found, getattr(found, part, None)
        if found is None:
            known = [each for each in dir(owner) if callable(getattr(owner, each)) and not each.startswith("_")]
            raise DataError(path, f"{place} has no {name!r}", nearest_name_hint(part, known))
    if not callable(found):
        raise DataError(path, f"{target} is {show_value(found)}", "a class or a function is needed")
    return found


def name_trainable(trainable: object) -> str:
    """Return the target by which another process imports a class or function that is not in a function."""
    name, module = getattr(trainable, "__qualname__", ""), getattr(trainable, "__module__", "")
    if not name or "<locals>" in name or "<lambda>" in name:
        message = f"trainable: got {show_value(trainable)}; a class or function at the top level of a module is needed"
        raise UsageError(message)
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise UsageError("trainable: it was defined in an interactive session; put it into a file")
        return f"{Path(file).resolve()}:{name}"
    return f"{module}:{name}"


def make_trainer(
    trainable: object, configuration: Configuration, session: Session
) -> _ClassTrainer | _GeneratorTrainer:
    """Make what is stepped of a class or a generator function, its state restored."""
    if inspect.isclass(trainable):
        return _ClassTrainer(trainable, configuration, session)
    if inspect.isgeneratorfunction(trainable):
        return _GeneratorTrainer(trainable, configuration, session)
    problem = f"{show_value(trainable)} is neither a class nor a generator function"
    raise DataError("train", problem, "write a class with setup and step, or a function that yields metrics")


def time_steps(steps: Sequence[float]) -> dict[str, float]:
    """Return how many iterations were timed, and the mean and the standard deviation of their seconds."""
    timings = {"steps": float(len(steps))}
    if steps:
        timings["step_s"] = statistics.fmean(steps)
    if len(steps) > 1:
        timings["step_sd_s"] = statistics.stdev(steps)
    return timings


class _ClassTrainer:
    """Steps a class; where nothing is left to do, a step has no metrics."""

    def __init__(self, trainable: type[Any], configuration: Configuration, session: Session) -> None:
        missing = [name for name in ("step", "save_checkpoint", "load_checkpoint") if not hasattr(trainable, name)]
        if missing:
            problem = f"{trainable.__name__} has no {', '.join(missing)}"
            raise DataError("train", problem, "a trainable has setup, step, save_checkpoint and load_checkpoint")
        if any(base.__module__.startswith("ray.") for base in trainable.__mro__):
            self._trainable = trainable(config=dict(configuration))  # Ray's own constructor calls setup
        else:
            self._trainable = trainable()
            if hasattr(self._trainable, "setup"):
                self._trainable.setup(dict(configuration))
        if session.checkpoint is not None:
            self._trainable.load_checkpoint(str(session.checkpoint))

    def step(self) -> Mapping[str, Any] | None:
        metrics: Mapping[str, Any] | None = self._trainable.step()
        return metrics

    def save(self, folder: Path) -> None:
        self._trainable.save_checkpoint(str(folder))

    def close(self) -> None:
        for name in ("cleanup", "close"):
            if hasattr(self._trainable, name):
                getattr(self._trainable, name)()
                return


class _GeneratorTrainer:
    """Steps a generator; where it stores nothing, going on means repeating its iterations."""

    def __init__(self, trainable: object, configuration: Configuration, session: Session) -> None:
        self._session = session
        generate: Callable[[Configuration, Session], Iterator[Mapping[str, Any]]] = trainable  # type: ignore[assignment]
        stored = session.checkpoint is not None and not (session.checkpoint / _NOTHING).exists()
        repeated = 0 if stored else session.iterations
        if not stored:
            session.checkpoint, session.iterations = None, 0
        self._metrics = generate(configuration, session)
        for _ in range(repeated):
            next(self._metrics, None)
        session.iterations = session.iterations or repeated

    def step(self) -> Mapping[str, Any] | None:
        metrics = next(self._metrics, None)
        self._session.iterations += metrics is not None
        return metrics

    def save(self, folder: Path) -> None:
        if self._session.save is None:
            (folder / _NOTHING).write_text("this trial stores nothing; its iterations are repeated\n", encoding="utf-8")
        else:
            self._session.save(folder)

    def close(self) -> None:
        if hasattr(self._metrics, "close"):
            self._metrics.close()


#: Marks the checkpoint of a generator that does not say how it is stored.
_NOTHING = "nothing-stored"


def _import_file(file: Path, path: str) -> ModuleType:
    if not file.is_file():
        raise DataError(path, f"there is no file {file}", "give a path from where the command is run")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None  # as its name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return module


#: Seconds between two looks at what a command has reported.
_LOOK_S = 0.05


class Report:
    """How far an operation is: told line by line in its folder, stored, and left there with what has come of it."""

    def __init__(self, folder: Path, operation: Mapping[str, Any]) -> None:
        self.folder, self.operation = folder, operation
        self.iterations: int = operation["from_iterations"]
        self.metrics: Mapping[str, Any] = operation["metrics"]
        self.checkpoint: Mapping[str, str] | None = operation["checkpoint"]

    def tell(self, done: Iterable[tuple[int, Mapping[str, Any]]], seconds: float | None) -> None:
        """Tell of iterations, by how many there are in all and what each has shown, that took so long each."""
        with (self.folder / PROGRESS).open("a", encoding="utf-8") as progress:
            for iterations, metrics in done:
                line = {"iterations": iterations, "metrics": metrics, "seconds": seconds}
                progress.write(json.dumps(line) + "\n")

    def save(self, write_state: Callable[[Path], object]) -> None:
        """Store the state, which is written into a folder."""
        operation = self.operation
        path = f"trials/{operation['trial']}/checkpoint-{self.iterations:06d}-{operation['attempt']:03d}"
        self.checkpoint = asdict(store(Path(operation["root"]), path, write_state, operation["storage"]))

    def leave(self, name: str, timings: Mapping[str, float], *, complete: bool) -> None:
        """Leave what it has come to in its folder, and at its URL, should its machine be lost."""
        done = {"iterations": self.iterations, "metrics": self.metrics, "checkpoint": self.checkpoint}
        said = {**done, "complete": complete, "timings": timings}
        if self.operation["storage"]:
            storage = Storage(self.operation["storage"])
            storage.write(f"operations/{self.operation['id']}/{name}", json.dumps(said))
        write(self.folder / name, said)


def run_command(folder: Path, operation: Mapping[str, Any]) -> int:
    """Run the command of an operation in its folder, and return its exit code."""
    save, lines = folder / "save", Lines(folder, operation)
    shutil.rmtree(save, ignore_errors=True)
    save.mkdir()
    lines.file.unlink(missing_ok=True)
    wanted = time.monotonic() - (time.time() - operation["wanted_wall"])
    try:
        process = subprocess.Popen(
            _fill_in(operation["command"], operation["configuration"]),
            env={**os.environ, **_name_variables(operation, save, lines.file)},
            cwd=operation["folder"],
        )
    except OSError as error:
        problem = f"{operation['command']!r} cannot be started ({error.strerror})"
        raise DataError("command", problem, "give a program that is there") from None
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
    if any(save.iterdir()):
        lines.save(partial(shutil.copytree, save, dirs_exist_ok=True))
    target = operation["to_iterations"]
    complete = not ended or operation["until_wall"] is not None or (target is not None and lines.iterations >= target)
    lines.leave(OUTCOME, lines.time_steps(wanted) | {"save_s": time.monotonic() - ended_at}, complete=complete)
    return 0


class Lines(Report):
    """The lines that a command has reported so far."""

    def __init__(self, folder: Path, operation: Mapping[str, Any]) -> None:
        super().__init__(folder, operation)
        self.file = folder / "metrics.jsonl"
        self._offset = 0
        self._numbers: set[int] = set()
        #: When lines were seen first, and how many; and when last.
        self._first: tuple[float, int] | None = None
        self._seen: float | None = None

    def time_steps(self, wanted: float) -> dict[str, float]:
        """Return how many iterations there were, and, apart from one another, what they and the start took.

        That is told from lines that were seen at different times; where all came at once, ``step_s`` is left out, and
        ``start_s`` is until they came.
        """
        done = self.iterations - self.operation["from_iterations"]
        if self._first is None or self._seen is None:
            return {"steps": float(done)}
        first, at_first = self._first
        if done == at_first:
            return {"steps": float(done), "start_s": first - wanted}
        step_s = (self._seen - first) / (done - at_first)
        return {"steps": float(done), "start_s": max(0.0, first - wanted - at_first * step_s), "step_s": step_s}

    def read(self, seen: float) -> None:
        """Read the lines that are new and complete at a time, and hand them on."""
        lines, self._offset = read_new_lines(self.file, self._offset)
        taken = [(self.iterations, self.metrics) for line in lines if self._take(line.decode())]
        if not taken:
            return
        # Lines that are seen together share the time since the last ones; those before the first took the start, too.
        each_s = None if self._seen is None else (seen - self._seen) / len(taken)
        self._seen, self._first = seen, self._first or (seen, len(taken))
        self.tell(taken, each_s)

    def _take(self, line: str) -> bool:
        """Take note of a line; say whether it is a new iteration's."""
        metric = self.operation["metric"]
        try:
            metrics = json.loads(line)
        except json.JSONDecodeError:
            metrics = None
        if not isinstance(metrics, dict) or metric not in metrics:
            fix = f'write one object a line, such as {{"{metric}": 0.5}}'
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
