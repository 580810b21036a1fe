"""The library of named instances, and what is known about each of them.

``manifest.toml`` lists them with the best objective and bound known for every budget that has been solved, who proved
it and when. The instances are derived figures with their provenance; no trace is copied here. One with a ``base`` has
no file: it is that instance with ``changes``, in the words of :mod:`optplan.instances.changes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from optplan.contracts import Instance, Result, Solution
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.instances.parsing import parse_instance, parse_result
from optplan.units import parse_duration

#: Names that stand for a generator instead of a file.
GENERATED = ("random-boa",)

#: What can be chosen of a generated instance.
SIZES = ("classes", "epochs", "widths", "seed")
#: What each record says besides the limits that it is about.
FIELDS = frozenset({"problem", "policy", "objective", "bound", "proof", "solver", "date", "proof_file"})
#: Fields of an instance by what a record calls them, where the names differ.
_RENAMED = {"deadline": "deadline_s", "policy": "mode"}
Record = Mapping[str, Any]


def names() -> list[str]:
    """List the names that :func:`build_named` understands."""
    return [*manifest(), *GENERATED]


def build_named(name: str, **sizes: int) -> Instance:
    """Build a named instance; generated ones take ``classes``, ``epochs``, ``widths`` and ``seed``."""
    stored = {each.name for each in files(__package__).iterdir()}  # quicker than what is recorded about them
    has_file = f"{name}.json" in stored
    if not has_file and name not in names():
        raise DataError("", f"no instance named {name!r} in the library", nearest_name_hint(name, names()))
    unknown = [size for size in sizes if name not in GENERATED or size not in SIZES]
    if unknown:
        known = f"generated ones have {', '.join(SIZES)}" if name in GENERATED else "only generated ones have sizes"
        raise UsageError(f"{unknown[0]}: instance {name!r} has no such size; {known}")
    if name in GENERATED:
        from optplan.instances.generators import random_boa  # generators load NumPy's random machinery

        generate: Callable[..., Instance] = random_boa
        return generate(**sizes)
    if not has_file:
        from optplan.instances.changes import apply_changes, parse_change  # which most instances do without

        facts = manifest()[name]
        changed = apply_changes(build_named(facts["base"]), [parse_change(text) for text in facts["changes"]])
        return changed.replace(name=name, description=facts["description"])
    text = files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    return parse_instance(json.loads(text), path=name)


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """Return what is recorded by name: ``origin``, ``licence``, ``best``; without a file ``base`` and ``changes``."""
    import tomllib

    text = files(__package__).joinpath("manifest.toml").read_text(encoding="utf-8")
    recorded: dict[str, dict[str, Any]] = tomllib.loads(text)
    return recorded


def ask_as_recorded(instance: Instance, record: Record) -> Instance:
    """Return the instance with a record's problem, kind of plan and limits."""
    known = type(instance).model_fields
    changes: dict[str, Any] = {}
    for name in record.keys() - (FIELDS - {"problem", "policy"}):
        value = record[name]
        field = name if name in known else _RENAMED.get(name, name)
        if name == "deadline" and field in known:
            value = parse_duration(value, what=name)
        elif name == "deadline":
            field = "deadline_min"  # whose field reads durations with a unit
        changes |= {field: value} if field in known else {}
    return type(instance).parse(instance.to_json_data() | changes)


def name_record(name: str, record: Record) -> str:
    """Name a record: the instance, the problem, the kind of plan, the limits."""
    limits = [str(record[limit]) for limit in sorted(record.keys() - FIELDS)]
    return "-".join([name, record["problem"], record["policy"], *limits])


def read_proof(proof_file: str) -> Result[Solution]:
    """Read a proof of the library."""
    try:
        text = files(__package__).joinpath("proofs", proof_file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError("proof_file", f"no file {proof_file!r} among the library's proofs", "") from None
    return parse_result(json.loads(text), path=proof_file)
