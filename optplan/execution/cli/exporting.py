"""``optplan export``, ``submit`` and ``promote``: plans as jobs of the scheduler that people have."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from optplan.cli.commands import Command
from optplan.cli.console import note, print_either
from optplan.cli.options import DATA, DIR, FILE, flag, force_option, known_name, list_fields, with_options
from optplan.execution.fields import ExportFields

#: What fills fields of the export.
_FIELDS = [*list_fields(ExportFields)]


def _list_targets() -> list[str]:
    from optplan.execution.exports.folder import exporters

    return list(exporters())


@click.command(
    cls=Command,
    short_help="Write a plan as the files of a scheduler.",
    examples=(
        'optplan export plan.json --to slurm --command "python train.py --gpus {gpus}" --out jobs',
        'optplan export plan.json --to kubernetes --command "train {checkpoint}" --template pods.yaml --out jobs',
        "optplan list exporters",
    ),
    renamed={"command": "--command"} | {str(each.name): flag(each) for each in _FIELDS},
)
@click.argument("plan", metavar="PLAN", type=FILE)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="TARGET",
    help="slurm, script, ...: `optplan list exporters`.",
    **known_name("target", _list_targets),
)
@click.option(
    "--command",
    "texts",
    required=True,
    multiple=True,
    metavar="[CLASS=]TEXT",
    help="What a job runs: a program and its arguments; {gpus} and its like are replaced. Repeat it for classes.",
)
@click.option("-o", "--out", required=True, type=DIR, help="Folder for the files; the jobs work there.")
@click.option("--template", type=DATA, help="Merged in: partition, image, volumes, set-up (YAML).")
@click.option("--overlay", type=DATA, help="Merged into pods: volumes, secrets, priority, security (YAML).")
@click.option("--space", type=DATA, help="What configurations are drawn from (YAML or JSON).")
@with_options(_FIELDS)
@force_option
def export(
    plan: Path,
    *,
    target: str,
    texts: tuple[str, ...],
    out: Path,
    force: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - what export takes
) -> int:
    """Write the PLAN as files of a scheduler, to submit with `optplan submit DIR`, or by hand with DIR/submit.sh.

    Every job starts its command through DIR/launch.sh, which gives it its size, its checkpoint and its configuration
    by placeholders and by environment variables. What a target cannot express is refused.
    """
    from optplan.execution.exports.folder import divide_commands, write_folder
    from optplan.execution.exports.folder import export as export_plan
    from optplan.execution.exports.request import kind_of
    from optplan.instances.files import read_plan

    given = {name: value for name, value in options.items() if value is not None}
    followed = read_plan(plan)
    command, commands = divide_commands(texts, followed)
    files = export_plan(followed, target, command, commands=commands, folder=str(out.resolve()), **given)
    write_folder(files, out, overwrite=force)
    if not as_json:
        note(f"wrote {len(files)} files to {out}")
    stream = " --class NAME --job NAME" if kind_of(followed) == "stream" else ""
    written = {"target": target, "folder": str(out), "files": list(files)}
    print_either(written, f"optplan submit {shlex.quote(str(out))}{stream}\n", as_json=as_json)
    return 0


@click.command(
    cls=Command,
    short_help="Hand the jobs of an export to its scheduler.",
    examples=("optplan submit jobs", "optplan submit jobs --class bert --job bert-17"),
    renamed={"class": "--class", "job": "--job"},
)
@click.argument("folder", metavar="DIR", type=FILE)
@click.option("--class", "unit", metavar="NAME", help="Of a stream: the class of the job.")
@click.option("--job", metavar="NAME", help="Of a stream: what the job is called.")
def submit(folder: Path, *, unit: str | None, job: str | None, as_json: bool) -> int:
    """Submit the jobs of an exported plan in DIR; of a stream, one job of a class at the width planned for it now.

    While jobs of a first time have not ended, a second one is refused; after that, what has ended is not run again.
    A job of a stream submits its next segment itself when an epoch's end changes its width. Where a class's jobs are
    dealt out to several widths, the job takes the one that is furthest behind its share.
    """
    from optplan.execution.exports.promotion import read_export
    from optplan.execution.exports.promotion import submit as submit_export

    said = submit_export(read_export(folder), unit=unit, job=job)
    lines = [line.split("\t") for line in said.splitlines()]
    jobs = [{"step": each[0], "id": each[1]} for each in lines if len(each) == len(("step", "id"))]
    print_either({"jobs": jobs}, said, as_json=as_json)
    return 0


@click.command(
    cls=Command,
    hidden=True,  # for the jobs of an export, which call it
    short_help="Decide which trials of an export go on, or which has won.",
    examples=("optplan promote jobs b1-s2", "optplan promote jobs --winner"),
)
@click.argument("folder", metavar="DIR", type=FILE)
@click.argument("step", required=False, metavar="[STEP]")
@click.option("--winner", is_flag=True, help="Rank those who ended in the last steps instead.")
def promote(folder: Path, *, step: str | None, winner: bool, as_json: bool) -> int:
    """Rank the trials of the steps before STEP by their metrics, and write who goes on.

    A trial that did not end is behind all others, one without a number behind those that have one, and equal ones stay
    in order. Once one of those who go on has begun, the decision stands. Exits with 4 when the plan's hard deadline has
    passed, and with 1 when the winner is the best so far only: nobody ended the last steps.
    """
    from optplan.errors import UsageError
    from optplan.execution.exports.promotion import find_winner, read_export
    from optplan.execution.exports.promotion import promote as promote_step

    if winner == (step is not None):
        raise UsageError("STEP: give the name of a step, or --winner")
    exported = read_export(folder)
    if step is None:
        best = find_winner(exported)
        shown = f"{exported.manifest['metric']} {best['metric']}, {best['checkpoint']}"
        ended = best["step"] in [each.name for each in exported.outline.last()]
        early = "" if ended else f"; the best of {best['step']}, as nobody ended the last steps with a number"
        said = (
            "nobody ended any step with a number\n" if best["trial"] is None else f"{best['trial']}: {shown}{early}\n"
        )
        print_either({"winner": best}, said, as_json=as_json)
        return 0 if ended else 1
    members = promote_step(exported, step)
    print_either({"step": step, "members": members}, f"{step}: {', '.join(members) or 'nobody'}\n", as_json=as_json)
    return 0
