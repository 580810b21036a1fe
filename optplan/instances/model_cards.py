"""Model cards as users write them, and the tables of speedups that follow, by type of GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optplan.errors import DataError, nearest_name_hint, show_value
from optplan.instances.plain_data import read_data
from optplan.quantities import round_shared
from optplan.schema import ByName, Count, FrozenModel, PositiveAmount
from optplan.speedup import Evidence, TableSpeedup
from optplan.speedup.cards.estimate import VALID_GPUS, VALID_PARAMETERS, StepEstimate, estimate_steps, list_doubts
from optplan.speedup.cards.records import Cluster, ModelCard, make_cluster
from optplan.speedup.curves import list_widths

#: Dense decoders by the word of ``config.json``, with the matrices of the part of a layer after attention: three where
#: it is gated.
_DECODERS = {
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo", "olmo2", "stablelm", "granite"), 3
    ),
    **dict.fromkeys(("phi3", "cohere", "smollm3", "exaone4"), 3),
    **dict.fromkeys(("gpt_neox", "starcoder2", "phi", "opt"), 2),
}
#: Words of ``config.json`` for the number of experts.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
#: Widest jobs that step times were compared with; beyond, measured curves fall where these do not.
LARGEST_WIDTH = VALID_GPUS[1]
#: Fewest parameters on types of GPUs that are not validated: small networks were off there by 27 to 50 % (median).
_LEAST_PARAMETERS = VALID_PARAMETERS[0]
#: How wrong the ratio of steps on two types may be, in 9 of 10 cases: so for 77 pairs of MPT's steps on H100 and A100.
_TYPE_ERROR = 0.31


class CardStep(FrozenModel):
    """A step of a model's training on so many GPUs, in the layout that is fastest there."""

    gpus: Count
    seconds: PositiveAmount
    memory_bytes: PositiveAmount  #: Of one GPU.
    layout: str


class CardSpeedup(FrozenModel):
    """Speedups of one model by type of GPU, relative to its step at the reference width on the first type."""

    reference_width: Count
    speedup: ByName[TableSpeedup]
    steps: ByName[tuple[CardStep, ...]]  #: By type of GPU, as wide as its table.
    source: ByName[str]  #: What this rests on.


def read_model_card(path: Path, said: Mapping[str, Any] | None = None) -> ModelCard:
    """Read a card (YAML or JSON) or the ``config.json`` of a dense decoder; what is ``said`` goes before the file.

    Raises
    ------
    DataError
        When the file is none, is of a model that is not computed, or lacks something that is not said.
    """
    data = read_data(path)
    if not isinstance(data, Mapping):
        raise DataError(path.name, "is no model card", "give parameters, sequence_length and global_batch")
    if "model_type" in data or "num_hidden_layers" in data:
        data = _read_config(path.name, data)
    given = dict(said or {})
    if "max_sequence_length" in data:
        longest = data.pop("max_sequence_length")
        if given.get("sequence_length", 0) > longest:
            problem = f"got {given['sequence_length']:,}, and positions end at {longest:,}"
            raise DataError(f"{path.name}: sequence_length", problem, "shorten it")
    card = {"name": path.stem, **data, **given}
    missing = [key for key in ("sequence_length", "global_batch") if card.get(key) is None]
    if missing:
        ways = " and ".join(f"{key}: N ({_COUNTED[key]})" for key in missing)
        raise DataError(path.name, f"does not say {' and '.join(missing)}", f"say {ways} there, or by option")
    return ModelCard.parse(card, path=path.name)


_COUNTED = {"sequence_length": "tokens", "global_batch": "sequences of a step over all GPUs"}


def _read_config(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a card that a ``config.json`` states."""
    kind = config.get("model_type")
    experts = {key: config[key] for key in _EXPERTS if config.get(key) not in (None, 0, 1)}
    if experts:
        key, count = next(iter(experts.items()))
        problem = f"got {show_value(count)}: a mixture of experts, whose steps are not computed"
        raise DataError(f"{name}: {key}", problem, "measure it, as by `optplan measure jobs`")
    if kind not in _DECODERS:
        problem = f"got {show_value(kind)}, which is no dense decoder that is known here"
        fix = f"{nearest_name_hint(str(kind), _DECODERS)}; or, where it is one, write a card with its parameters"
        raise DataError(f"{name}: model_type", problem, fix)
    needed = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    for key in needed:
        if type(config.get(key)) is not int or config[key] < 1:
            problem = f"got {show_value(config.get(key))}; a whole number above zero is needed"
            raise DataError(f"{name}: {key}", problem, "write a card with the model's parameters instead")
    layers, hidden, inner, heads, vocabulary = (config[key] for key in needed)
    head = config.get("head_dim") or hidden / heads
    queries, shared = heads * head, (config.get("num_key_value_heads") or heads) * head
    tied = config.get("tie_word_embeddings", True)
    layer = 2 * hidden * queries + 2 * hidden * shared + _DECODERS[str(kind)] * hidden * inner
    fields = {
        "parameters": float(layers * layer + vocabulary * hidden * (1 if tied else 2)),
        "layers": layers,
        "hidden_size": hidden,
        "vocabulary": vocabulary,
        "tied_embeddings": tied,
    }
    longest = config.get("max_position_embeddings")
    return fields | ({"max_sequence_length": longest} if longest else {})


def card(
    model: ModelCard | Path | str,
    gpus: str | Sequence[str] | Mapping[str, str],
    *,
    widths: Sequence[int],
    gpus_per_node: int | None = None,
    network_gbit_per_s: float | None = None,
    **said: Any,  # noqa: ANN401 - fields of the card
) -> CardSpeedup:
    """Compute how a dense decoder speeds up with the number of GPUs, from its model card.

    Parameters
    ----------
    model
        The card, or the path of one, or of a ``config.json``.
    gpus
        Types of GPUs: a name such as ``h100``, several, or by the names that an instance gives them. Speedups on all
        are relative to the first.
    widths
        Numbers of GPUs, up to 256; those on which no layout fits the memory are left out.
    gpus_per_node, network_gbit_per_s
        How the GPUs are joined: in nodes of so many, with so much for each GPU from a node to the others; as usual for
        the type unless given.
    **said
        Fields of a card that its file lacks, such as ``global_batch``, in sequences.

    Returns
    -------
    CardSpeedup
        A table for each type, with its error, and the layout behind each width.

    Raises
    ------
    DataError
        When the card is of a model that is not computed, a type of GPU is not known, a width is beyond what was
        validated, or no layout fits the memory.
    """
    given = {key: value for key, value in said.items() if value is not None}
    chosen = model.replace(**given) if isinstance(model, ModelCard) else read_model_card(Path(model), given)
    named = {gpus: gpus} if isinstance(gpus, str) else gpus if isinstance(gpus, Mapping) else {gpu: gpu for gpu in gpus}
    network = None if network_gbit_per_s is None else network_gbit_per_s * 1e9 / 8
    clusters = {
        name: make_cluster(gpu, gpus_per_node=gpus_per_node, network_bytes_per_s=network) for name, gpu in named.items()
    }
    wanted = _check_widths(widths)
    steps = {name: _estimate(chosen, cluster, wanted) for name, cluster in clusters.items()}
    first = next(iter(steps.values()))[0]
    return CardSpeedup(
        reference_width=first.gpus,
        speedup={
            name: _tabulate(each, first, 0.0 if each[0] is first else _doubt_type(chosen, clusters[name]))
            for name, each in steps.items()
        },
        steps={
            name: tuple(
                CardStep(
                    gpus=step.gpus,
                    seconds=float(round_shared(step.seconds)),
                    memory_bytes=float(round_shared(step.memory_bytes)),
                    layout=step.layout.describe(),
                )
                for step in each
            )
            for name, each in steps.items()
        },
        source={"model card": _tell_card(chosen)}
        | {f"GPUs {name}": _tell_cluster(chosen, cluster, steps[name], wanted) for name, cluster in clusters.items()},
    )


def read_card_speedup(path: Path, gpu: str | None, widths: Sequence[int]) -> CardSpeedup:
    """Read what ``optplan import card`` wrote, or a card, whose speedup is computed on a type of GPU."""
    data = read_data(path)
    if isinstance(data, Mapping) and "steps" in data:
        return CardSpeedup.parse(data, path=path.name)
    if gpu is None:
        fix = f"say it by --gpu, or give what `optplan import card {path.name} --gpu TYPE` writes"
        raise DataError(path.name, "is a card, and the log does not say on which type of GPU its jobs ran", fix)
    return card(path, gpu, widths=[width for width in widths if width <= LARGEST_WIDTH])


def _check_widths(widths: Sequence[int]) -> list[int]:
    """Return the widths in order; refuse those that nothing was compared with."""
    wanted = sorted(set(widths))
    if not wanted or wanted[0] < 1:
        raise DataError("widths", f"got {show_value(list(widths))}", "give numbers of GPUs from 1 on")
    if wanted[-1] > LARGEST_WIDTH:
        problem = f"got {wanted[-1]:,}; a card is validated up to {LARGEST_WIDTH} GPUs, and measured speeds fall beyond"
        raise DataError("widths", problem, f"end at {LARGEST_WIDTH}, or measure the wider ones")
    return wanted


def _estimate(model: ModelCard, cluster: Cluster, widths: Sequence[int]) -> list[StepEstimate]:
    """Return a step on each width that has a layout which fits the memory, least width first."""
    gpu = cluster.accelerator
    if model.precision == "bf16" and not gpu.bf16:
        raise DataError("precision", f"{gpu.name} has no bf16", "say precision: fp16, or take another GPU")
    if not gpu.validated and model.parameters < _LEAST_PARAMETERS:
        problem = f"{model.parameters:,.3g} on {gpu.name}; steps of small networks were far off on such GPUs"
        raise DataError("parameters", problem, f"measure it; cards begin at {_LEAST_PARAMETERS:,.0f} parameters there")
    steps = [step for step in estimate_steps(model, cluster, widths) if step is not None]
    if steps:
        return steps
    wider = [width for width in (2**power for power in range(LARGEST_WIDTH.bit_length())) if width > widths[-1]]
    fitting = next((step.gpus for step in estimate_steps(model, cluster, wider) if step is not None), None)
    tried = f"{widths[0]} to {widths[-1]}" if len(widths) > 1 else str(widths[0])
    problem = f"no layout fits the {gpu.memory_bytes / 1e9:g} GB of {gpu.name} on {tried} GPUs"
    fix = f"{fitting} GPUs are enough" if fitting else f"none up to {LARGEST_WIDTH} GPUs does; take a larger GPU"
    raise DataError("widths", problem, fix)


def _tabulate(steps: Sequence[StepEstimate], first: StepEstimate, type_error: float) -> TableSpeedup:
    """Make a table of steps, relative to the first one of the first type."""
    errors = [math.hypot(math.log1p(step.error), math.log1p(type_error)) for step in steps]
    return TableSpeedup(
        gpus=[step.gpus for step in steps],
        speedup=round_shared([first.seconds / step.seconds for step in steps]),
        provenance=Evidence.CARD.value,
        error=round_shared(np.expm1(errors)),
    )


def _doubt_type(model: ModelCard, cluster: Cluster) -> float:
    """Return how wrong steps on a type may be beside those on the first, more for everything that was not compared."""
    return _TYPE_ERROR * (1 + len(list_doubts(model, cluster)))


def _tell_card(model: ModelCard) -> str:
    """Say which model this is of, and what was filled in."""
    said = (
        f"{model.name or 'a model'}, {model.parameters / 1e9:,.4g} billion parameters, {model.layers} layers of "
        f"hidden size {model.hidden_size:,}, sequences of {model.sequence_length:,} tokens, {model.global_batch:,} a step, "
        f"{model.precision}"
    )
    return said + (f"; assumed: {', '.join(model.assumed)}" if model.assumed else "")


def _tell_cluster(model: ModelCard, cluster: Cluster, steps: Sequence[StepEstimate], wanted: Sequence[int]) -> str:
    """Say what GPUs these are, which widths their memory and what was compared allow, and what was not compared."""
    gpu, network = cluster.accelerator, cluster.network_bytes_per_s_per_gpu * 8e-9
    said = (
        f"{gpu.name}, {cluster.gpus_per_node} in a node, {network:g} Gbit/s for each between nodes; at least "
        f"{steps[0].gpus} GPUs by memory, at most {LARGEST_WIDTH} by what was compared with measured steps"
    )
    lacking = sorted({*wanted} - {step.gpus for step in steps})
    said += f"; no layout fits the memory on {list_widths(np.array(lacking))}" if lacking else ""
    doubts = list_doubts(model, cluster)
    return said + (f"; not validated: {', '.join(doubts)}" if doubts else "")
