"""What is best known of the library's instances: the records of its manifest, and the proofs that they name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from optplan.contracts import Instance, Result, Solution
from optplan.errors import DataError
from optplan.instances import library
from optplan.instances.parsing import parse_result
from optplan.units import parse_duration

#: What each record says besides the limits that it is about.
FIELDS = frozenset({"problem", "policy", "objective", "bound", "proof", "solver", "date", "proof_file"})
#: Fields of an instance by what a record calls them, where the names differ.
_RENAMED = {"deadline": "deadline_s", "policy": "mode"}
_FOLDER = "proofs"

Record = Mapping[str, Any]


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
    """Read a proof of the library.

    Raises
    ------
    DataError
        When there is no such file, or it is no result.
    """
    try:
        text = files(library).joinpath(_FOLDER, proof_file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError("proof_file", f"no file {proof_file!r} among the library's proofs", "") from None
    return parse_result(json.loads(text), path=proof_file)
