"""``optplan import card``: the speedup of a model from its card."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optplan.cli.commands import command
from optplan.cli.options import BANDWIDTH, FILE, WIDTHS, argument, by_name, named, option
from optplan.cli.outputs import Outputs

if TYPE_CHECKING:
    from optplan.instances.model_cards import CardSpeedup
    from optplan.reporting.tables import Shown


@command(
    name="card",
    short_help="Speedups of a language model, from its model card.",
    examples=(
        "optplan import card llama.yaml --gpu h100 --nodes-of 8 --network 400gbit --widths 8..256 -o llama.json",
        "optplan import card config.json --global-batch 512 --sequence-length 4096 --gpu a100-80gb --gpu h100 --json",
    ),
    renamed=named("widths", "gpu") | {"network_gbit_per_s": "--network", "gpus_per_node": "--nodes-of"},
    writes={"output": "the class's fields as JSON, for `optplan import log --card`"},
)
def import_card(
    card: Path = argument(metavar="CARD", type=FILE),
    *,
    gpus: dict[str, str] = option(
        "--gpu",
        **by_name("each type once is needed, as in h100 or H100-SXM=h100", names_itself=True),
        required=True,
        metavar="[NAME=]TYPE",
        help="h100, a100-80gb, ...; with the name that instances give it, where that is another. May be repeated: the "
        "speedups on all are relative to the first.",
    ),
    nodes_of: int | None = option(
        type=click.IntRange(1, 1024), metavar="N", help="GPUs of a node; as usual for the type unless given."
    ),
    network: float | None = option(
        type=BANDWIDTH,
        help="From a node to the others for each of its GPUs, in one direction: 400gbit. As usual for the type unless "
        "given.",
    ),
    widths: tuple[int, ...] = option(
        type=WIDTHS,
        default="1..256",
        help="Numbers of GPUs: doublings of the first up to the last, or 8,16,24. Those on which no layout fits the "
        "memory are left out.",
    ),
    sequence_length: int | None = option(
        type=click.IntRange(min=1), metavar="N", help="Tokens of a sequence; before what the card says."
    ),
    global_batch: int | None = option(
        type=click.IntRange(min=1), metavar="N", help="Sequences of a step, over all GPUs; before what the card says."
    ),
    outputs: Outputs,
) -> int:
    """Compute how the training of a dense decoder speeds up with the number of GPUs, from its model CARD.

    CARD is YAML with parameters (or layers, hidden_size, vocabulary), sequence_length, global_batch, and if need be
    precision, checkpointing; or the config.json of such a model. The table has its error, and the layout behind each
    width. `optplan import log --card CLASS=FILE` takes what is written.
    """
    from optplan.instances.model_cards import card as compute

    made = compute(
        card,
        gpus,
        widths=widths,
        gpus_per_node=nodes_of,
        network_gbit_per_s=network,
        sequence_length=sequence_length,
        global_batch=global_batch,
    )
    return outputs.deliver(made, lambda: _show(made))


def _show(made: CardSpeedup) -> Iterable[Shown]:
    """Show a row for each width of each type, and what they rest on."""
    from optplan.reporting.tables import fact_table, record_table

    for name, curve in made.speedup.items():
        low, high = curve.band_at(curve.gpus, made.reference_width)
        rows = [
            {
                "gpus": step.gpus,
                "speedup": f"{speedup:.3g}",
                "90 % band": f"{least:.3g} to {most:.3g}",
                "step": f"{step.seconds:.3g} s",
                "memory": f"{step.memory_bytes / 1e9:.3g} GB",
                "layout": step.layout,
            }
            for step, speedup, least, most in zip(
                made.steps[name], curve.speedup.tolist(), low[0].tolist(), high[0].tolist(), strict=True
            )
        ]
        yield record_table(name, rows)
        yield ""
    yield fact_table(list(made.describe().items()))
