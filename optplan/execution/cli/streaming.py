"""``optplan stream``: the jobs of a stream, served by a BOA plan's widths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import Command
from optplan.cli.console import note
from optplan.cli.options import DIR, FILE, TIME
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.execution.protocol import Progressed
    from optplan.execution.records import Record
    from optplan.execution.streams.outcomes import StreamOutcome

_AT_LEAST_ONE = click.IntRange(min=1)


@click.command(
    cls=Command,
    short_help="Serve a stream of jobs by a BOA plan's widths: virtual, here, on Ray or Slurm.",
    examples=(
        "optplan stream plan.json jobs.yaml --truth instance.json",
        "optplan stream plan.json jobs.yaml --learn instance.json --train train.py:train --executor local --out s1",
        "optplan stream --resume s1",
    ),
    renamed={
        "grace_s": "--grace",
        "step_timeout_s": "--step-timeout",
        "orphan_after_s": "--orphan-after",
        "terms.every_s": "--every",
        "terms.window_h": "--window",
    },
    writes={"events": "Write every event as a line of JSON."},
)
@click.argument("plan", required=False, metavar="PLAN", type=FILE)
@click.argument("jobs", required=False, metavar="JOBS", type=FILE)
@click.option("--learn", metavar="INSTANCE", help="Calculate widths again from what jobs show, starting from this.")
@click.option("--table", metavar="FILE", help="Follow the widths.json that `optplan serve` publishes instead.")
@click.option("--inbox", metavar="DIR", help="The folder that it watches: what jobs show is put there.")
@click.option("--truth", metavar="INSTANCE", help="On the virtual clock: how long epochs take; by default as --learn.")
@click.option("--train", metavar="TARGET", help="What to train: module:Trainable, or file.py:Trainable.")
@click.option("--command", metavar="TEXT", help="A command line to train with, instead of --train.")
@click.option(
    "--executor",
    type=click.Choice(["virtual", "local", "ray", "slurm"]),
    help="Where jobs run; the virtual clock by default.",
)
@click.option("-o", "--out", type=DIR, help="Folder of the stream; with it the stream can be resumed.")
@click.option("--resume", "resumed", type=DIR, help="Go on with the stream in a folder.")
@click.option("--gpus-per-node", "node_gpus", type=_AT_LEAST_ONE, metavar="N", help="GPUs of a node; 1 by default.")
@click.option("--most-gpus", type=_AT_LEAST_ONE, metavar="N", help="The most GPUs at a time; jobs queue for them.")
@click.option(
    "--order",
    type=click.Choice(["first-come", "least-attained", "weighted-shortest"]),
    help="Who comes first where jobs queue; first-come by default.",
)
@click.option("--slots", type=_AT_LEAST_ONE, metavar="N", help="GPUs or CPU slots of this machine that may be used.")
@click.option("--node-start", "node_start_s", type=TIME, help="On the virtual clock.")
@click.option(
    "--scale-command", metavar="TEXT", help="Run with OPTPLAN_GPU_TYPE and OPTPLAN_NODES as nodes are wanted."
)
@click.option("--address", metavar="ADDR", help="Of a Ray cluster, HOST:PORT or auto; without it one is made here.")
@click.option("--sbatch", multiple=True, metavar="NAME=VALUE", help="An option of sbatch: partition=gpu.")
@click.option("--gres", metavar="NAME", help="What a GPU is called in Slurm's --gres; gpu by default.")
@click.option("--launcher", type=click.Choice(["single", "torchrun"]), help="One process for a job, or one a GPU.")
@click.option("--metric", metavar="NAME", help="What jobs have to show after each epoch; loss by default.")
@click.option("--retries", type=click.IntRange(min=0), help="Failures of a job that are forgiven; 2 by default.")
@click.option("--grace", "grace_s", type=TIME, help="Time to store a checkpoint: 30s.")
@click.option("--step-timeout", "step_timeout_s", type=TIME, help="An epoch that takes longer is a failure of its job.")
@click.option("--orphan-after", "orphan_after_s", type=TIME, help="Jobs end so long after nobody drives them: 10min.")
@click.option("--every", "every_s", type=TIME, help="Calculate widths so often: 15min.")
@click.option("--window", "window_s", type=TIME, help="What was seen fades over: 72h.")
def stream(
    plan: Path | None,
    jobs: Path | None,
    *,
    learn: str | None,
    truth: str | None,
    out: Path | None,
    resumed: Path | None,
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - fields of StreamOptions, None where they were not given
) -> int:
    """Serve the jobs of a stream until all are over: each holds what the PLAN of BOA says, as nodes are there.

    JOBS is a list of YAML or JSON: name, job_class, at_s (seconds since the beginning), and where they are needed
    epochs and configuration. An epoch is one iteration of what is trained. With --learn, the speed of every epoch,
    arrivals and completions go to BOA's width calculator, and jobs take new widths as soon as it has better ones.

    Exits with 0 when all jobs are completed, 1 when one was given up, 130 when it was interrupted (143 by SIGTERM, 129
    when its terminal was closed).
    """
    from optplan.execution.streams.arrivals import read_jobs
    from optplan.execution.streams.running import resume_stream, run_stream
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.formulations.boa.planning import BoaPlan
    from optplan.instances.files import read_instance, read_plan

    heard: list[Record | Progressed] = []

    def listen(record: Record | Progressed) -> None:
        if "--events" in outputs:
            heard.append(record)
        _tell(record)

    if resumed is not None:
        if plan is not None or any(value not in (None, ()) for value in (*options.values(), learn, truth, out)):
            raise UsageError("--resume: nothing else can be given; the stream has its own plan, jobs and options")
        outcome = resume_stream(resumed, listener=listen)
    elif plan is None or jobs is None:
        raise UsageError("PLAN or JOBS is missing; `optplan solve INSTANCE --plan plan.json` writes a plan")
    else:
        followed = read_plan(plan, BoaPlan)
        given = _name_options(options, followed.resources)
        outcome = run_stream(
            followed,
            read_jobs(jobs),
            instance=None if learn is None else read_instance(learn, BoaInstance),
            truth=None if truth is None else read_instance(truth, BoaInstance),
            out=out,
            listener=listen,
            **given,
        )
    show_stream(outcome, outputs)
    outputs.save_text("--events", lambda _: _write_events(heard))
    return outputs.exit_code(outcome.code)


def show_stream(outcome: StreamOutcome, outputs: Outputs) -> None:
    """Print what became of a stream, or how it stands."""
    from optplan.execution.pages.streams import class_table, list_facts
    from optplan.reporting.tables import fact_table

    told = ["virtual stream: nothing was trained; times are those of the instance"] if outcome.virtual else []
    outputs.answer(outcome, lambda: [*told, class_table(outcome), "", fact_table(list_facts(outcome))])


def _name_options(options: dict[str, Any], types: Any) -> dict[str, Any]:  # noqa: ANN401 - names of resources
    """Return the fields of StreamOptions that were given."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if "sbatch" in given:
        given["sbatch"] = dict(_split(text) for text in given["sbatch"])
    terms: dict[str, float] = {}
    if "node_gpus" in given:
        given["gpus_per_node"] = dict.fromkeys(types, given.pop("node_gpus"))
    if "every_s" in given:
        terms["every_s"] = given.pop("every_s")
        terms["settle_s"] = min(5.0, terms["every_s"] / 4.0)
    if "window_s" in given:
        terms["window_h"] = given.pop("window_s") / 3600.0
    return given | ({"terms": terms} if terms else {})


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--sbatch: got {text!r}; an option and its value are needed, as in partition=gpu")
    return name, value


def _tell(record: Record | Progressed) -> None:
    """Say what a reader should know while a stream is served."""
    from optplan.execution.records import Noted, OperationFailed, TablePublished, TrialDropped
    from optplan.units import format_duration

    match record:
        case TablePublished():
            note(f"[{format_duration(record.t)}] new widths: {record.why}")
        case OperationFailed():
            note(f"[{format_duration(record.t)}] {record.operation} {record.why}")
        case Noted():
            note(f"[{format_duration(record.t) if record.t else '0 s'}] {record.text}")
        case TrialDropped():
            note(f"[{format_duration(record.t)}] {record.trial} is given up: {record.why}")


def _write_events(heard: list[Any]) -> str:
    from optplan.execution.protocol import Progressed
    from optplan.execution.records import encode

    return "".join(f"{encode(record)}\n" for record in heard if not isinstance(record, Progressed))
