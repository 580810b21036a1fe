"""A step's command with its placeholders filled in, as words that a shell takes for data whatever they hold."""

from __future__ import annotations

import re
import shlex

from optplan.contracts.conditions import Elapsed
from optplan.errors import UsageError, nearest_name_hint
from optplan.execution.exports.request import PLACEHOLDER, Export, placeholders, split
from optplan.execution.exports.steps import CannotExpressError, Step

#: Placeholders of which a command needs one, where sizes differ from a single GPU.
_SIZES = ("nodes", "gpus_per_node", "gpus", "workers")
#: Placeholders whose value is known when a job starts, by the variable that has it then.
_LATE = {"checkpoint": "OPTPLAN_SAVE", "metrics": "OPTPLAN_METRICS", "trial": "OPTPLAN_TRIAL"}


def describe_size(step: Step, export: Export) -> dict[str, int | float | str | None]:
    """Return what a step's command is told of it, by placeholder; as variables they begin with OPTPLAN_.

    Of a fleet these are the sizes of all groups together.
    """
    kind, segment = export.outline.kind, step.segment
    together = export.outline.steps if kind == "fleet" else (step,)
    return {
        "segment": segment.id,
        "nodes": sum(each.nodes for each in together),
        "gpus_per_node": step.gpus_per_node,
        "gpus": sum(each.segment.gpus for each in together),
        "workers": sum(each.segment.workers for each in together),
        "batch": segment.batch_per_worker,
        "iterations": None if kind == "stream" else step.target,
        "epochs": step.target if kind == "stream" else None,
        "seconds": round(segment.expected.seconds, 3) if isinstance(segment.exit, Elapsed) else None,
    }


def write_command(step: Step, export: Export) -> str:
    """Return a step's command as the words of a Bash array; it is refused where it would lose its size."""
    command = export.commands.get(step.segment.unit, export.command)
    words = split(command)
    sizes = describe_size(step, export)
    values = sizes | {"class": step.segment.unit if export.outline.kind == "stream" else None}
    late = _LATE | {name: f"OPTPLAN_VALUE_{number}" for number, name in enumerate(value_names(export), start=1)}

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        if name in late:
            return f"\0{late[name]}\0"
        if name not in values:
            message = f"command: {{{name}}} is no placeholder; {nearest_name_hint(name, [*values, *late])}"
            raise UsageError(f"{message} (for braces as they stand write {{{{{name}}}}})")
        if values[name] is None:
            raise CannotExpressError(f"command: cannot express {{{name}}}: the plan has none; leave it out")
        return str(values[name])

    # No word holds a NUL: between two of them stands the name of a variable.
    filled = [PLACEHOLDER.sub(fill, word).split("\0") for word in words]
    _require_size(command, export)
    return " ".join([*_launch(step, export), *(_write_word(parts) for parts in filled)])


def value_names(export: Export) -> list[str]:
    """Return the hyperparameters of the configurations, in the order of their numbers in files."""
    return list(dict.fromkeys(name for each in export.configurations for name in each))


def _write_word(parts: list[str]) -> str:
    """Write a word, each second part of which is the name of a variable."""
    written = [f'"${part}"' if number % 2 else shlex.quote(part) for number, part in enumerate(parts) if part]
    return "".join(written) or "''"


def _require_size(command: str, export: Export) -> None:
    if export.sizes_known or export.launcher == "torchrun" or placeholders(command).intersection(_SIZES):
        return
    if any(step.segment.gpus > 1 for step in export.outline.steps):
        names = ", ".join(f"{{{name}}}" for name in _SIZES)
        message = f"command: nothing in {command!r} says how many GPUs it has, and the plan gives more than one"
        raise UsageError(
            f"{message}; use one of {names}, --launcher torchrun, or --sizes-by-environment where the program reads "
            "OPTPLAN_GPUS and its like"
        )


def _launch(step: Step, export: Export) -> list[str]:
    if export.launcher != "torchrun":
        return []
    nodes = describe_size(step, export)["nodes"]
    processes = f"--nproc-per-node={step.workers_per_node}"
    if nodes == 1:
        return ["torchrun", "--standalone", processes, "--no-python"]
    meet = ["--rdzv-backend=c10d", '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"', '--rdzv-id="$OPTPLAN_MEETING"']
    return ["torchrun", f"--nnodes={nodes}:{nodes}", processes, *meet, "--no-python"]
