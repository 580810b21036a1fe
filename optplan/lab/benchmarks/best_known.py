"""The suite of the library's manifest: every value recorded as best known is solved again, and its proof is checked.

A record names the file of its proof: the Result with the plan and its certificates, from which ``verify`` derives
objective and bound anew without solving anything. Besides what is recorded, the suite asks the library's instances at
limits of which nothing is recorded. What is new or better is written to a folder, with its proof, on request;
``benchmarks/library_manifest.py --take FOLDER`` puts it into the library.

Benchmark rows, how they are measured, and what there is to measure.
"""

from __future__ import annotations

import datetime
import gc
import json
import resource
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from optplan.contracts import BoundProof, Instance, Result, Sense, Solution
from optplan.formulations import formulation_of
from optplan.instances.files import format_json, write_text
from optplan.instances.library import FIELDS, Record, ask_as_recorded, build_named, manifest, name_record, read_proof
from optplan.progress import Event, Listener
from optplan.schema import FrozenModel
from optplan.solving import solve
from optplan.verification import verify


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement: an instance with its limit, the wall time of its solve, and the most memory during it."""

    # Among ``extra`` are ``sense`` where more of the objective is better, and ``objective_unit`` where it is another
    # one.

    instance: str
    solver: str
    status: str
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    bound_proof: str = "none"
    seconds: float
    verify_seconds: float | None = None
    peak_mb: float
    extra: dict[str, float | str] = field(default_factory=dict)
    certificate_kb: float | None = None


def measure(rows: Iterator[Row], on_event: Listener | None = None) -> list[dict[str, object]]:
    """Measure rows one by one; return them as plain data."""
    start = time.perf_counter()
    measured = []
    gc.freeze()  # what is there already is not searched for garbage before every row
    try:
        for row in rows:
            measured.append(asdict(row))
            if on_event is not None:
                on_event(Event(f"{row.instance} {row.solver}", time.perf_counter() - start, row.objective, row.bound))
    finally:
        gc.unfreeze()
    return measured


def measure_solve(
    instance: Instance,
    label: str,
    solver: str,
    *,
    time_limit_s: float | None = None,
    extra: dict[str, float | str] | None = None,
    measures: Collection[str] = (),
) -> Row:
    """Solve and verify an instance and return the row; which of a solution's measures it has too can be asked for."""
    row, result = solve_and_verify(instance, label, solver=solver, gap=1e-6, time_limit_s=time_limit_s)
    row.extra.update(result.counters)
    if instance.sense is not Sense.MINIMISE:
        row.extra["sense"] = instance.sense.value
    row.extra.update(extra or {})
    row.extra.update({name: result.measures[name] for name in measures if name in result.measures})
    return row


def solve_and_verify(instance: Instance, label: str, **asked: Any) -> tuple[Row, Result[Solution]]:  # noqa: ANN401
    """Solve an instance as asked and verify the result; the row has nothing ``extra`` yet."""
    reset_peak()
    result = solve(instance, check=False, **asked)
    peak = peak_mb()
    verification = verify(instance, result)
    verification.require()
    row = Row(
        instance=label,
        solver=result.solver,
        status=result.status.value,
        objective=result.objective,
        bound=result.bound,
        gap=result.gap,
        bound_proof=result.bound_proof.value,
        seconds=result.solve_seconds,
        verify_seconds=verification.seconds,
        peak_mb=peak,
        certificate_kb=certificate_kb(result),
    )
    return row, result


def certificate_kb(result: Result[Solution]) -> float | None:
    """Return the size of everything in a result that proves something, as it is written to a file, in kB."""
    stated: list[FrozenModel] = list(result.certificates)
    if result.infeasibility is not None:
        stated.append(result.infeasibility)
    return sum(len(json.dumps(one.to_json_data())) for one in stated) / 1000.0 if stated else None


def reset_peak() -> None:
    """Forget the largest memory so far, where the system can (Linux); elsewhere peaks only grow over a run."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mb() -> float:
    """Return the largest resident memory since :func:`reset_peak`, in MB."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 1024.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024.0 * 1024.0 if sys.platform == "darwin" else 1024.0)


#: By how much, relative to the larger, values may differ that are the same; of sampled ones, by how much.
_TOLERANCE, _SAMPLED_TOLERANCE = 1e-9, 1e-2
#: Budgets asked besides those recorded, in the unit of the instance; the first of each also by the quick form.
_ASKED = {
    "boa-newtrace-tables": ("80gpu", "100gpu", "160gpu", "200gpu", "300gpu"),
    "boa-filtertrace": ("60gpu", "100gpu", "120gpu", "160gpu", "200gpu"),
    "boa-philly": ("140gpu", "160gpu", "180gpu", "200gpu", "300gpu"),
    "boa-gavel": ("90usd/hour", "110usd/hour", "140usd/hour"),
}
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
