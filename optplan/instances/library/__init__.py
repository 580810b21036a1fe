"""The library of named instances, and what is known about each of them.

``manifest.toml`` lists them with the best objective and bound known for every budget that has been solved, who proved
it and when. The instances are derived figures with their provenance; no trace is copied here. One with a ``base`` has
no file: it is that instance with ``changes``, in the words of :mod:`optplan.instances.changes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from optplan.contracts import Instance
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.instances.parsing import parse_instance

#: Names that stand for a generator instead of a file.
GENERATED = ("random-boa",)

#: What can be chosen of a generated instance.
SIZES = ("classes", "epochs", "widths", "seed")


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
