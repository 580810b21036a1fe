"""What users write: a class, a generator or a command, and how each of them is stepped, stored and restored.

A *class* has ``setup(configuration)``, ``step() -> metrics``, ``save_checkpoint(folder)`` and
``load_checkpoint(folder)``; one that is written for Ray Tune's ``Trainable`` works unchanged. A *generator* takes the
configuration and a :class:`Session`, and yields metrics after each iteration. A *command* is run with environment
variables; see :mod:`optplan.execution.commands`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from optplan.errors import DataError, UsageError, show_value

Configuration = Mapping[str, Any]


class Trainer(Protocol):
    """A trial that can be stepped."""

    def step(self) -> Mapping[str, Any] | None:
        """Do one iteration and return its metrics; None when there is nothing left to do."""
        ...

    def save(self, folder: Path) -> None:
        """Store the state in a folder that is there and empty."""
        ...

    def close(self) -> None:
        """Give back what the trial holds."""
        ...


@dataclass
class Session:
    """What a generator is given besides its configuration."""

    checkpoint: Path | None = None  #: Folder with the state from which to go on; None where the trial begins anew.
    iterations: int = 0  #: That the trial has done.
    gpus: int = 1  #: That it has.
    #: Set it to a function that stores the state in a folder. Where it is not set, a trial that goes on is run from its
    #: beginning, up to where it was.
    save: Callable[[Path], None] | None = None


def import_trainable(target: str, folder: Path) -> object:
    """Import ``module:name`` or ``path/to/file.py:name``, looked for in a folder first; DataError for none."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise DataError("train", f"got {target!r}", "give module:Trainable, or path/to/file.py:Trainable")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = _import_file(folder / place) if place.endswith(".py") else importlib.import_module(place)
    except ImportError as error:
        problem = f"{place} cannot be imported ({error})"
        raise DataError("train", problem, "is it installed, or in the folder?") from None
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise DataError("train", f"{place} has no {name!r}", "name the class or function that trains")
    if not callable(found):
        raise DataError("train", f"{target} is {show_value(found)}", "a class or a generator function is needed")
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


def make_trainer(trainable: object, configuration: Configuration, session: Session) -> Trainer:
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
    """Steps a class."""

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


def _import_file(path: Path) -> Any:  # noqa: ANN401 - a module
    if not path.is_file():
        raise DataError("train", f"there is no file {path}", "give a path from where the command is run")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise DataError("train", f"{path} is no Python file", "give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module
