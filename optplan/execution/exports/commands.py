"""The user's command with its placeholders filled in, as words that a shell takes for data whatever they hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from optplan.errors import UsageError, nearest_name_hint
from optplan.execution.exports.request import ExportRequest
from optplan.execution.exports.steps import CannotExpressError, Step

#: Placeholders of which a command needs one, where sizes differ from a single GPU.
SIZES = ("nodes", "gpus_per_node", "gpus", "workers")
#: Placeholders whose value is known when a job starts, by the variable that has it then.
_LATE = {"checkpoint": "OPTPLAN_SAVE", "metrics": "OPTPLAN_METRICS", "trial": "OPTPLAN_TRIAL"}
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


def write_command(step: Step, request: ExportRequest) -> str:
    """Return a step's command as the words of a Bash array; it is refused where it would lose its size."""
    command = request.options.commands.get(step.segment.unit, request.command)
    words = split(command)
    values = request.describe_size(step) | {"class": step.segment.unit if request.kind == "stream" else None}
    late = _LATE | {name: f"OPTPLAN_VALUE_{number}" for number, name in enumerate(value_names(request), start=1)}
    written = [_write_word(word, values, late) for word in words]
    _require_size(command, request)
    return " ".join([*_launch(step, request), *written])


def write_promotion(request: ExportRequest, folder: str = ".") -> str:
    """Return the beginning of a line of shell that decides who goes on; the folder is a word of shell."""
    return f"{shlex.join(split(request.template.optplan))} promote {folder}"


def split(command: str) -> list[str]:
    """Take a command apart as a shell would."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"command: got {command!r} ({error}); close the quotes") from None
    if not words:
        raise UsageError('command: is empty; give a program, as in --command "python train.py --gpus {gpus}"')
    if any("\0" in word for word in words):
        raise UsageError("command: holds the character NUL, which no program's argument can; leave it out")
    return words


def value_names(request: ExportRequest) -> list[str]:
    """Return the hyperparameters of the configurations, in the order of their numbers in files."""
    return list(dict.fromkeys(name for each in request.configurations for name in each))


def placeholders(command: str) -> set[str]:
    """Return the names that stand in braces."""
    return {found.group(1) for found in _PLACEHOLDER.finditer(command) if found.group(1)}


def _write_word(word: str, values: Mapping[str, int | float | str | None], late: Mapping[str, str]) -> str:
    parts, text, place = [], "", 0
    for found in _PLACEHOLDER.finditer(word):
        text += word[place : found.start()]
        place = found.end()
        name = found.group(1)
        if name is None:
            text += found.group()[0]
        elif name in late:
            parts += [_quote(text), f'"${late[name]}"']
            text = ""
        elif name not in values:
            message = f"command: {{{name}}} is no placeholder; {nearest_name_hint(name, [*values, *late])}"
            raise UsageError(f"{message} (for braces as they stand write {{{{{name}}}}})")
        elif values[name] is None:
            raise CannotExpressError(f"command: cannot express {{{name}}}: the plan has none; leave it out")
        else:
            text += str(values[name])
    return "".join([*parts, _quote(text + word[place:])]) or "''"


def _quote(text: str) -> str:
    return shlex.quote(text) if text else ""


def _require_size(command: str, request: ExportRequest) -> None:
    shown = placeholders(command)
    if request.options.sizes_known or request.options.launcher == "torchrun" or shown.intersection(SIZES):
        return
    if any(step.segment.gpus > 1 for step in request.steps):
        names = ", ".join(f"{{{name}}}" for name in SIZES)
        message = f"command: nothing in {command!r} says how many GPUs it has, and the plan gives more than one"
        raise UsageError(
            f"{message}; use one of {names}, --launcher torchrun, or --sizes-by-environment where the program reads "
            "OPTPLAN_GPUS and its like"
        )


def _launch(step: Step, request: ExportRequest) -> Iterable[str]:
    if request.options.launcher != "torchrun":
        return []
    nodes = request.whole_shape(step).nodes
    sizes = [f"--nproc-per-node={step.shape.workers_per_node}", f"--nnodes={nodes}:{nodes}"]
    if nodes == 1:
        return ["torchrun", "--standalone", sizes[0], "--no-python"]
    meet = ["--rdzv-backend=c10d", '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"', '--rdzv-id="$OPTPLAN_MEETING"']
    return ["torchrun", *reversed(sizes), *meet, "--no-python"]
