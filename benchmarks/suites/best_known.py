"""The suite of the library's manifest: every value recorded as best known is solved again, and its proof is checked.

A record names the file of its proof: the Result with the plan and its certificates, from which ``verify`` derives
objective and bound anew without solving anything. Besides what is recorded, the suite asks the library's instances at
limits of which nothing is recorded. What is new or better is written to a folder, with its proof, on request;
``benchmarks/library_manifest.py --take FOLDER`` puts it into the library.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from optplan.contracts import BoundProof, Instance, Result, Sense, Solution
from optplan.errors import DataError
from optplan.formulations import formulation_of
from optplan.instances import library
from optplan.instances.files import format_json, write_text
from optplan.instances.library import build_named, manifest
from optplan.instances.parsing import parse_result
from optplan.units import parse_duration
from optplan.verification import verify
from suites.measured import Row, solve_and_verify

#: By how much, relative to the larger, values may differ that are the same; of sampled ones, by how much.
_TOLERANCE, _SAMPLED_TOLERANCE = 1e-9, 1e-2
#: Budgets asked besides those recorded, in the unit of the instance; the first of each also by the quick form.
_ASKED = {
    "boa-newtrace-tables": ("80gpu", "100gpu", "160gpu", "200gpu", "300gpu"),
    "boa-filtertrace": ("60gpu", "100gpu", "120gpu", "160gpu", "200gpu"),
    "boa-philly": ("140gpu", "160gpu", "180gpu", "200gpu", "300gpu"),
    "boa-gavel": ("90usd/hour", "110usd/hour", "140usd/hour"),
}
#: What each record says besides the limits that it is about.
FIELDS = frozenset({"problem", "policy", "objective", "bound", "proof", "solver", "date", "proof_file"})
#: Fields of an instance by what a record calls them, where the names differ.
_RENAMED = {"deadline": "deadline_s", "policy": "mode"}
Record = Mapping[str, Any]
#: What the suite is called.
BEST_KNOWN = "best-known"
#: The file of what is new, in the folder that is asked for.
RECORDS = "records.json"


def run(*, quick: bool, proofs: Path | None = None) -> Iterator[Row]:
    """Measure every row of the suite; write what is new or better to the folder ``proofs``, where there is one.

    ``stands`` says ``reached``, ``better``, ``new``, ``missed`` or, where nothing is recorded and nothing was found,
    ``no answer``; ``proof`` says of the recorded proof ``holds``, ``broken`` or ``no file``.
    """
    found: dict[str, list[Record]] = {}
    for name, record in list_questions(quick=quick):
        row, result = _ask(name, record)
        yield row
        stands = row.extra["stands"]
        if proofs is not None and (
            stands in {"better", "new"} or (stands == "reached" and row.extra["proof"] != "holds")
        ):
            entry = _make_record(record, row)
            found.setdefault(name, []).append(entry)
            write_text(format_json(result.to_json_data()) + "\n", proofs / entry["proof_file"], overwrite=True)
            write_text(format_json(found) + "\n", proofs / RECORDS, overwrite=True)


def list_questions(*, quick: bool) -> Iterator[tuple[str, Record]]:
    """List the names of instances with what is recorded of each, then those with the limits that are asked besides."""
    for name, facts in manifest().items():
        known = facts["best"]
        yield from ((name, record) for record in known)
        kinds = dict.fromkeys((record["problem"], record["policy"]) for record in known)
        for budget in _ASKED.get(name, ())[: 1 if quick else None]:
            for problem, policy in kinds:
                asked = {"problem": problem, "policy": policy, "budget": budget}
                if not any(asked.items() <= record.items() for record in known):
                    yield name, asked


def _ask(name: str, record: Record) -> tuple[Row, Result[Solution]]:
    instance = ask_as_recorded(build_named(name), record)
    row, result = solve_and_verify(instance, name_record(name, record))
    row.extra["stands"] = _compare(instance, result, record)
    row.extra["proof"] = _check_proof(instance, record)
    row.extra["formulation"] = formulation_of(instance).name
    row.extra.update({f"recorded_{field}": record[field] for field in ("objective", "bound") if field in record})
    return row, result


def _compare(instance: Instance, result: Result[Solution], record: Record) -> str:
    if "objective" not in record:
        return "no answer" if result.objective is None else "new"
    if result.objective is None:
        return "missed"
    sign = 1.0 if instance.sense is Sense.MINIMISE else -1.0
    tolerance = _SAMPLED_TOLERANCE if record["proof"] == BoundProof.NONE.value else _TOLERANCE
    # Above zero: the record is the better one.
    losses = [sign * (result.objective - record["objective"]) / abs(record["objective"])]
    if "bound" in record:
        if result.bound is None:
            return "missed"
        losses.append(sign * (record["bound"] - result.bound) / abs(record["bound"]))
    if max(losses) > tolerance:
        return "missed"
    return "better" if min(losses) < -tolerance else "reached"


def _check_proof(instance: Instance, record: Record) -> str:
    if "proof_file" not in record:
        return "no file"
    proof = read_proof(record["proof_file"])
    stated = (proof.objective, proof.bound) == (record["objective"], record.get("bound"))
    own = proof.instance_hash == instance.content_hash()  # the instance may have been made again since
    return "holds" if stated and own and verify(instance, proof).ok else "broken"


def _make_record(record: Record, row: Row) -> dict[str, Any]:
    """Write down what was found, in the order of the manifest."""
    limits = {limit: value for limit, value in record.items() if limit not in FIELDS}
    bound = {} if row.bound is None or row.bound_proof == BoundProof.NONE.value else {"bound": row.bound}
    return {
        "problem": record["problem"],
        "policy": record["policy"],
        **limits,
        "objective": row.objective,
        **bound,
        "proof": row.bound_proof,
        "solver": row.solver,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "proof_file": row.instance.replace("/", "-per-") + ".json",
    }


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count how the recorded values stand, and name those that do not."""
    stands = [row["extra"]["stands"] for row in rows]
    proofs = [row["extra"]["proof"] for row in rows]
    return {
        "values": sum(stand != "new" for stand in stands),
        **{stand: stands.count(stand) for stand in ("reached", "better", "missed", "new")},
        "proofs": {word: proofs.count(word) for word in ("holds", "broken", "no file")},
        "failed": [
            row["instance"] for row in rows if row["extra"]["stands"] == "missed" or row["extra"]["proof"] == "broken"
        ],
    }


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
        text = files(library).joinpath("proofs", proof_file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError("proof_file", f"no file {proof_file!r} among the library's proofs", "") from None
    return parse_result(json.loads(text), path=proof_file)
