"""``optplan show``, ``list`` and ``schema``: what there is to solve, to solve it with, and the formats of the files."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

import click

import optplan
from optplan import wings
from optplan.cli.amending import amend, amendments
from optplan.cli.commands import command
from optplan.cli.console import Progress, Shown, print_answer, print_json, print_text
from optplan.cli.options import INSTANCE, argument, known_name, list_formulations, option
from optplan.cli.outputs import Outputs, deliver
from optplan.errors import InfeasibleError, UsageError

RECORDS = ("instance", "result", "plan", "explanation", "sensitivity", *wings.brought("RECORDS"))
#: Those that not every formulation has, by what makes them.
_OPTIONAL_RECORDS = {"explanation": "explain", "sensitivity": "analyse_sensitivity"}
#: What a table shows of the records; ``--json`` has all.
_SHOWN = {
    "instances": ("name", "origin", "description"),
    "solvers": ("formulation", "name", "problems", "policies", "proofs", "missing", "summary"),
    "formulations": ("name", "title", "reference"),
}
_OF_WINGS = ("name", "needs", "summary")
#: How many of these fields name a record, where it is not one.
_KEYS = {"solvers": 2}


@command(
    short_help="Show or write an instance, or its model for other engines.",
    examples=(
        "optplan show boa-newtrace",
        "optplan show boa-newtrace --budget 120gpu -o mine.json",
        "optplan show boa-two-classes --model lp",
        "optplan show srift-case3 --plot iteration.html",
        "optplan show random-boa --classes 20 --epochs 50 --widths 64 --seed 1 --json",
    ),
    writes={
        "plot": "Write a figure of the best plan as HTML.",
        "output": "the instance as JSON, or the model",
    },
)
@amendments
def show(
    instance_name: str = INSTANCE,
    *,
    form: Literal["lp", "mps"] | None = option(
        "--model", type=click.Choice(["lp", "mps"]), help="Write the linear model instead."
    ),
    outputs: Outputs,
    classes: int | None = option(type=int, metavar="N", help="Of a generated instance: job classes."),
    epochs: int | None = option(type=int, metavar="N", help="Of a generated instance: epochs of each class."),
    widths: int | None = option(type=int, metavar="N", help="Of a generated instance: allowed widths 1..N."),
    seed: int | None = option(type=int, metavar="N", help="Of a generated instance: same seed, same instance."),
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Show an INSTANCE (a file or a name of the library), or write it, or its model.

    With --json, the instance itself; with --model, the text of the mixed-integer model for other engines.
    """
    sizes = {"classes": classes, "epochs": epochs, "widths": widths, "seed": seed}
    instance = amend(_read(instance_name, {k: v for k, v in sizes.items() if v is not None}), changes)
    if "--plot" in outputs:
        return _show_picture(instance, outputs)
    if form is not None:
        return _show_model(instance, form, outputs)
    if outputs.as_json or "--out" not in outputs:
        return deliver(instance, outputs)
    outputs.save_json(instance)
    return outputs.exit_code(0)


def _show_picture(instance: optplan.Instance, outputs: Outputs) -> int:
    """Solve an instance and write a figure of its plan over time."""
    from optplan.reporting.reports import build_figures

    if outputs.as_json:
        raise UsageError("--plot draws, which is no JSON; leave out --json")
    with Progress("solving", instance.objective_unit) as progress:
        result = optplan.solve(instance, ranges=False, on_event=progress.listen)
    if result.solution is None:
        reason = result.infeasibility.reason if result.infeasibility else f"none was found ({result.termination})"
        raise InfeasibleError(f"there is no plan to draw: {reason}")
    figures = [("The plan", optplan.draw_plan(instance, result))]
    outputs.save_text("--plot", lambda _: build_figures(instance.name, f"The plan of {result.solver}", figures))
    return outputs.exit_code(0)


def list_kinds() -> list[str]:
    """List what there are lists of."""
    return [*_LISTS, *wings.brought("LISTS")]


@command(
    name="list",
    short_help="List instances, solvers, formulations and exporters.",
    examples=("optplan list", "optplan list solvers", "optplan list instances --json"),
)
def list_registered(
    kind: str | None = argument(required=False, metavar="[KIND]", **known_name("list", list_kinds)),
    *,
    as_json: bool,
) -> int:
    """List instances of the library, solvers, formulations and exporters; or only one KIND of them.

    With --json, an object that has a list for each kind.
    """
    listing = _LISTS | {name: resolve_name(home) for name, home in wings.brought("LISTS").items()}
    found = {name: list_records() for name, list_records in listing.items() if kind in (None, name)}
    if as_json:
        print_json(found)
        return 0
    from optplan.reporting.tables import record_table

    parts: list[Shown] = []
    for name, records in found.items():
        shown = [{field: record[field] for field in _SHOWN.get(name, _OF_WINGS)} for record in records]
        parts += [record_table(name, shown, num_keys=_KEYS.get(name, 1)), ""]
    print_answer(*parts[:-1])
    return 0


@command(examples=("optplan schema", "optplan schema result", "optplan schema plan --formulation boa"))
def schema(
    record: str = argument(
        required=False, default="instance", metavar=f"[{'|'.join(RECORDS)}]", type=click.Choice(RECORDS)
    ),
    *,
    formulation: str | None = option(
        metavar="NAME",
        show_default="boa; of plans: all of them",
        help="Whose; `optplan list formulations` lists them.",
        **known_name("formulation", list_formulations),
    ),
    as_json: bool,  # noqa: ARG001 - it is JSON in any case
) -> int:
    """Print the JSON Schema of a kind of file."""
    from optplan.formulations import formulation_named

    if record == "plan" and formulation is None:
        print_json(_describe_plans())
        return 0
    declared = formulation_named(formulation or "boa")
    if record in _OPTIONAL_RECORDS:
        getattr(declared, _OPTIONAL_RECORDS[record])  # refuses what the formulation has not
    if record in wings.brought("RECORDS"):
        kind = resolve_name(wings.brought("RECORDS")[record])
    else:
        shared = {"explanation": optplan.Explanation, "result": declared.result_type()}
        kind = shared.get(record) or getattr(declared, f"{record}_type")
    print_json(kind.model_json_schema())
    return 0


def _describe_plans() -> dict[str, Any]:
    """Return the JSON Schema of every formulation's plans; the field ``formulation`` says which one holds."""
    from pydantic import Field, TypeAdapter

    from optplan.formulations import formulations

    types = [declared.plan_type for declared in formulations().values()]
    any_plan: Any = Annotated[reduce(or_, types), Field(discriminator="formulation")]
    return TypeAdapter(any_plan).json_schema()


def _read(name: str, sizes: dict[str, int]) -> optplan.Instance:
    from optplan.instances.library import GENERATED, build_named

    if not sizes:
        return optplan.read_instance(name)
    if name not in GENERATED:
        message = f"--{next(iter(sizes))}: {name} is not generated, so its size is fixed; generated are: "
        raise UsageError(message + ", ".join(GENERATED))
    return build_named(name, **sizes)


def _show_model(instance: optplan.Instance, form: Literal["lp", "mps"], outputs: Outputs) -> int:
    if outputs.as_json:
        raise UsageError("--model writes a model's text, which is not JSON; leave out --json or --model")
    text = optplan.model(instance).write(form)
    if "--out" not in outputs:
        print_text(text)
    outputs.save_text("--out", lambda _: text)
    return outputs.exit_code(0)


def _list_instances() -> list[dict[str, Any]]:
    from optplan.instances.library import GENERATED, build_named, manifest, names

    records = []
    for name in names():
        known = manifest().get(name, {"origin": "generated"} if name in GENERATED else {})
        instance = build_named(name)
        records.append(
            {
                "name": name,
                "formulation": getattr(instance, "formulation", ""),
                "origin": known.get("origin", ""),
                "licence": known.get("licence", ""),
                "description": instance.description,
            }
        )
    return records


def _list_solvers() -> list[dict[str, Any]]:
    from optplan.formulations import formulations

    return [
        {
            "formulation": formulation.name,
            "name": entry.name,
            "problems": sorted(entry.problems),
            "policies": sorted(entry.policies),
            "exact": entry.exact,
            "proofs": sorted(entry.proofs),
            "needs": entry.needs or None,
            "missing": None if entry.available() else entry.needs,
            "max_cells": entry.max_cells,
            "summary": entry.summary,
        }
        for formulation in formulations().values()
        for entry in formulation.solvers
    ]


def _list_formulations() -> list[dict[str, Any]]:
    from optplan.formulations import formulations

    return [
        {
            "name": formulation.name,
            "title": formulation.title,
            "reference": formulation.reference,
            "solvers": [entry.name for entry in formulation.solvers],
        }
        for formulation in formulations().values()
    ]


_LISTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "instances": _list_instances,
    "solvers": _list_solvers,
    "formulations": _list_formulations,
}
