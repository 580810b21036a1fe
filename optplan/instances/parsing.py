"""From plain data, as JSON and YAML readers return it, to instances, results and plans of any formulation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from optplan.contracts import Instance, Result, Solution
from optplan.contracts.judgement import Judged
from optplan.contracts.registry import Formulation
from optplan.errors import DataError, name_field, name_kind, nearest_name_hint
from optplan.formulations import formulations
from optplan.schema import FrozenModel

if TYPE_CHECKING:
    from optplan.contracts import Plan

JudgedT = TypeVar("JudgedT", bound=Judged)

#: Characters of a certificate's content, written as JSON; solvers go without one that would be larger.
LARGEST_CERTIFICATE = 1 << 20

#: Fields that only one kind of file has, of those that are made for an instance.
_MADE_KINDS = {
    "termination": "a result",
    "segments": "a plan",
    "choices": "an explanation",
    "plans": "a sensitivity",
    "points": "a frontier",
    "assumptions": "an audit",
}


def parse_instance(data: object, *, path: str = "") -> Instance:
    """Build an instance from plain data; ``path`` is the file's name for messages."""
    fields, formulation = _take_apart(data, path, "an instance")
    instance: Instance = _parse_versioned(formulation.instance_type, fields, path)
    return instance


def parse_result(data: object, *, path: str = "") -> Result[Solution]:
    """Build a result from plain data; parameters and errors as of :func:`parse_instance`."""
    fields, formulation = _take_apart(data, path, "a result")
    _require_sizes(fields, path)
    result: Result[Solution] = _parse_versioned(formulation.result_type(), fields, path)
    return result


def parse_judged(kind: type[JudgedT], data: object, what: str, *, path: str = "") -> JudgedT:
    """Build a record of a wing from plain data; ``what`` messages call it."""
    fields, _ = _take_apart(data, path, what)
    record: JudgedT = _parse_versioned(kind, fields, path)
    return record


def parse_plan(data: object, *, path: str = "") -> Plan:
    """Build a plan from plain data; parameters and errors as of :func:`parse_instance`."""
    fields, formulation = _take_apart(data, path, "a plan")
    return _parse_plan(fields, formulation, path)


def is_audit(data: object) -> bool:
    """Whether plain data is of an audit, by a field that nothing else has."""
    return isinstance(data, dict) and "assumptions" in data


def parse_record(data: object, *, path: str = "") -> Instance | Result[Solution] | Plan:
    """Build an instance, a result or a plan, whichever the data is; as :func:`parse_instance`."""
    fields, formulation = _take_apart(data, path, "an instance, a result or a plan")
    if "instance_hash" not in fields:  # what is made for an instance names it
        return parse_instance(data, path=path)
    if "segments" in fields:
        return _parse_plan(fields, formulation, path)
    return parse_result(data, path=path)


def _require_sizes(fields: dict[str, Any], path: str) -> None:
    """Refuse certificates that are larger than any that is written, before anything is made of them."""
    places: list[tuple[str, Any]] = []
    for outer, record in (("", fields), ("infeasibility.", fields.get("infeasibility"))):
        if not isinstance(record, dict):
            continue
        places.append((f"{outer}certificate", record))
        for name in ("certificates", "relaxations", "hopeless"):
            several = record.get(name)
            numbered = enumerate(several) if isinstance(several, list | tuple) else ()
            inner = "" if name == "certificates" else ".certificate"
            places += [(f"{outer}{name}.{number}{inner}", each) for number, each in numbered]
    for place, holder in places:
        certificate = holder.get("certificate", holder) if isinstance(holder, dict) else None
        content = certificate.get("content") if isinstance(certificate, dict) else None
        size = len(json.dumps(content, default=str))
        if size > LARGEST_CERTIFICATE:
            problem = f"has {size:,} characters; up to {LARGEST_CERTIFICATE:,} are read"
            fix = "solve the instance again, or leave the certificate out and bound_proof at searched"
            raise DataError(name_field(path, f"{place}.content"), problem, fix)


def _take_apart(data: object, path: str, what: str) -> tuple[dict[str, Any], Formulation]:
    if not isinstance(data, dict):
        raise DataError(path, f"holds {name_kind(data)}, not {what}", "an object with named fields is needed")
    _require_kind(data, path, what)
    known = formulations()
    name = data.get("formulation")
    if isinstance(name, str) and name in known:
        return data, known[name]
    field = name_field(path, "formulation")
    if "formulation" not in data:
        raise DataError(field, "is missing", f"{what} names one of: {', '.join(known)}")
    raise DataError(field, f"got {name!r}", nearest_name_hint(str(name), known))


def _require_kind(fields: dict[str, Any], path: str, what: str) -> None:
    """Refuse another kind of file by its kind, instead of by the first field that does not fit."""
    if {"growing", "refusal"} <= fields.keys():
        problem = f"is the answer of --problem largest, not {what}: that of a size, and that no larger search fits"
        raise DataError(
            path, problem, "write its fields instance and result, or larger and refusal, to files of their own"
        )
    made = [kind for field, kind in _MADE_KINDS.items() if field in fields]
    solved = "; `optplan solve INSTANCE --plan FILE` makes one" if what == "a plan" else ""
    if "instance_hash" in fields:
        if len(made) == 1 and made[0] not in what:
            known = f", such as the one it was made for, {fields.get('instance_name')!r}" if "instance" in what else ""
            raise DataError(path, f"is {made[0]}, not {what}", f"give {what}{known}{solved}")
    elif not made and "name" in fields and "instance" not in what:  # only instances have a name of their own
        raise DataError(path, f"is an instance, not {what}", f"give {what}{solved}")


def _parse_plan(fields: dict[str, Any], formulation: Formulation, path: str) -> Plan:
    """Parse a plan; one without its id has to be written anew."""
    plan: Plan = _parse_versioned(formulation.plan_type, fields, path)
    if not fields.get("plan_id"):
        problem = "is missing, so that nobody can tell whether the plan was changed by hand"
        raise DataError(name_field(path, "plan_id"), problem, "make it anew: `optplan solve INSTANCE --plan FILE`")
    return plan


def _parse_versioned(model: type[FrozenModel], fields: dict[str, Any], path: str) -> Any:  # noqa: ANN401 - of that type
    """Parse after a look at the version: what another version added would read like a misspelt field."""
    understood = get_args(model.model_fields["version"].annotation)
    version = fields.get("version", understood[-1])
    if version not in understood or isinstance(version, bool):
        field = name_field(path, "version")
        numbers = ", ".join(map(str, understood))
        raise DataError(field, f"got {version!r}; understood: {numbers}", "use the release of optplan that wrote it")
    return model.parse(fields, path=path)
