"""Model cards as users write them, and the tables of speedups that follow, by type of GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import model_validator

from optplan.errors import DataError, nearest_name_hint, show_value
from optplan.instances.plain_data import read_data
from optplan.quantities import round_shared
from optplan.schema import ByName, Count, FrozenModel, PositiveAmount
from optplan.speedup import Evidence, TableSpeedup
from optplan.speedup.cards.records import Cluster, ModelCard, make_cluster
from optplan.speedup.cards.steps import (
    VALID_GPUS,
    VALID_PARAMETERS,
    StepEstimate,
    estimate_steps,
    find_error,
    list_doubts,
)

#: Dense decoders by the word of ``config.json``: with a gate, three matrices after a layer's attention, and with two.
_GATED = (
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo", "olmo2", "stablelm", "granite"),
    *("phi3", "cohere", "smollm3", "exaone4"),
)
_PLAIN = ("gpt_neox", "starcoder2", "phi")
#: Whole numbers of ``config.json`` that may be left out.
_OPTIONAL = ("head_dim", "num_key_value_heads")
#: What cards count.
_COUNTED = {"sequence_length": "tokens", "global_batch": "sequences of a step over all GPUs"}
#: Words of ``config.json`` for the number of experts.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
#: Widest jobs that step times were compared with; beyond, measured curves fall where these do not.
LARGEST_WIDTH = VALID_GPUS[1]
#: Least and largest network of a GPU, in Gbit/s; what is outside has another unit.
_NETWORK = (0.01, 1e5)
#: Fewest parameters on types of GPUs that are not validated: small networks were off there by 27 to 50 % (median).
_LEAST_PARAMETERS = VALID_PARAMETERS[0]
#: How wrong the ratio of steps on two types may be, in 9 of 10 cases, as for 77 pairs of MPT's steps on H100 and A100.
_TYPE_ERROR = 0.31


class CardStep(FrozenModel):
    """A step of a model's training on so many GPUs, in the layout that is fastest there."""

    gpus: Count
    seconds: PositiveAmount  #: For the progress of a step at the card's global batch, where steps grow.
    memory_bytes: PositiveAmount  #: Of one GPU.
    layout: str


class CardSpeedup(FrozenModel):
    """Speedups of one model by type of GPU, relative to its step at the reference width on the first type."""

    model: ModelCard
    clusters: ByName[Cluster]  #: By type, its GPUs and how they are joined.
    reference_width: Count
    speedup: ByName[TableSpeedup]
    steps: ByName[tuple[CardStep, ...]]  #: A step at each width of its table.

    @model_validator(mode="after")
    def _check_steps(self) -> CardSpeedup:
        widths = {name: [step.gpus for step in own] for name, own in self.steps.items()}
        tables = {name: table.gpus.tolist() for name, table in self.speedup.items()}
        if not widths or widths != tables or widths.keys() != self.clusters.keys():
            raise ValueError("clusters, steps and speedups have other types or widths; leave them as computed")
        return self

    def relative_to(self, gpu: str, width: int) -> CardSpeedup:
        """Return the same relative to a step on one of the types at one of its widths, which becomes exact."""
        return _relate(self.model, self.clusters, self.steps, gpu, width)

    def describe(self) -> dict[str, str]:
        """Return in words what the speedups rest on."""
        model = self.model
        batch = "as no critical batch is said, the same on all widths"
        if model.critical_batch is not None:
            batch = f"or as many more as pay at a critical batch of {model.critical_batch:,.4g}"
        said = (
            f"{model.name or 'a model'}, {model.parameters / 1e9:,.4g} billion parameters, {model.layers} layers of "
            f"hidden size {model.hidden_size:,}, sequences of {model.sequence_length:,} tokens, "
            f"{model.precision}, {model.global_batch:,} a step, {batch}"
        )
        told = {"model card": said + (f"; assumed: {', '.join(model.assumed)}" if model.assumed else "")}
        for name, cluster in self.clusters.items():
            network, doubts = cluster.network_bytes_per_s_per_gpu * 8e-9, list_doubts(model, cluster)
            first = self.steps[name][0].gpus
            least = next((step.gpus for step in estimate_steps(model, cluster, range(1, first)) if step), first)
            by_memory = f"from {least} GPU{'s' if least > 1 else ''} by memory"
            told[f"GPUs {name}"] = (
                f"{cluster.accelerator.name}, {cluster.gpus_per_node} in a node, {network:g} Gbit/s for each between "
                f"nodes; {by_memory} to {LARGEST_WIDTH} by what was compared with "
                f"measured steps{'; not validated: ' if doubts else ''}{', '.join(doubts)}"
            )
        return told


def read_model_card(path: Path, said: Mapping[str, Any] | None = None) -> ModelCard:
    """Read a card (YAML or JSON) or the ``config.json`` of a dense decoder; what is ``said`` goes before the file."""
    data = read_data(path)
    if not isinstance(data, Mapping):
        raise DataError(path.name, "is no model card", "give parameters, sequence_length and global_batch")
    if "model_type" in data or "num_hidden_layers" in data:
        data = _read_config(path.name, data, (said or {}).get("sequence_length", 0))
    card = {"name": path.stem, **data, **(said or {})}
    missing = [key for key in ("sequence_length", "global_batch") if card.get(key) is None]
    if missing:
        ways = " and ".join(f"{key}: N ({_COUNTED[key]})" for key in missing)
        raise DataError(path.name, f"does not say {' and '.join(missing)}", f"say {ways} there, or by option")
    return ModelCard.parse(card, path=path.name)


def _read_config(name: str, config: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Return the fields of a card that a ``config.json`` states, for sequences of so many tokens."""
    kind = config.get("model_type")
    experts = {key: config[key] for key in _EXPERTS if config.get(key) is True or config.get(key) not in (None, 0, 1)}
    if experts:
        key, count = next(iter(experts.items()))
        problem = f"got {show_value(count)}: a mixture of experts, whose steps are not computed"
        raise DataError(f"{name}: {key}", problem, "measure it, as by `optplan measure jobs`")
    if config.get("is_encoder_decoder"):
        problem = "got true; steps of encoders are not computed"
        raise DataError(f"{name}: is_encoder_decoder", problem, "measure it, as by `optplan measure jobs`")
    if kind not in (*_GATED, *_PLAIN):
        problem = f"got {show_value(kind)}, which is no dense decoder that is known here"
        hint = nearest_name_hint(str(kind), (*_GATED, *_PLAIN))
        raise DataError(
            f"{name}: model_type", problem, f"{hint}; or, where it is one, write a card with its parameters"
        )
    needed = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    for key in (*needed, *(key for key in _OPTIONAL if config.get(key) is not None)):
        if type(config.get(key)) is not int or config[key] < 1:
            problem = f"got {show_value(config.get(key))}; a whole number above zero is needed"
            raise DataError(f"{name}: {key}", problem, "write a card with the model's parameters instead")
    longest = config.get("max_position_embeddings")
    if isinstance(longest, int) and tokens > longest:
        raise DataError(f"{name}: sequence_length", f"got {tokens:,}, and positions end at {longest:,}", "shorten it")
    layers, hidden, inner, heads, vocabulary = (config[key] for key in needed)
    head = config.get("head_dim") or hidden / heads
    queries, shared = heads * head, (config.get("num_key_value_heads") or heads) * head
    tied = config.get("tie_word_embeddings", True)
    layer = 2 * hidden * queries + 2 * hidden * shared + (3 if kind in _GATED else 2) * hidden * inner
    return {
        "parameters": float(layers * layer + vocabulary * hidden * (1 if tied else 2)),
        "layers": layers,
        "hidden_size": hidden,
        "vocabulary": vocabulary,
        "tied_embeddings": tied,
    }


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
    if network_gbit_per_s is not None and not _NETWORK[0] <= network_gbit_per_s <= _NETWORK[1]:
        problem = f"got {show_value(network_gbit_per_s)} Gbit/s"
        raise DataError("network_gbit_per_s", problem, "{:g} to {:,g} for each GPU are allowed".format(*_NETWORK))
    network = None if network_gbit_per_s is None else network_gbit_per_s * 1e9 / 8
    clusters = {
        name: make_cluster(gpu, gpus_per_node=gpus_per_node, network_bytes_per_s=network) for name, gpu in named.items()
    }
    wanted = _check_widths(widths)
    if not clusters:
        raise DataError("gpus", "name no type of GPU", "give one, such as h100")
    steps = {
        name: tuple(
            CardStep(
                gpus=step.gpus,
                seconds=float(round_shared(step.seconds)),
                memory_bytes=float(round_shared(step.memory_bytes)),
                # The batch, too, where it differs between widths.
                layout=step.layout.describe()
                + ("" if chosen.critical_batch is None else f", {step.global_batch:,} sequences a step"),
            )
            for step in _estimate(chosen, cluster, wanted)
        )
        for name, cluster in clusters.items()
    }
    first = next(iter(steps))
    return _relate(chosen, clusters, steps, first, steps[first][0].gpus)


def _relate(
    model: ModelCard,
    clusters: Mapping[str, Cluster],
    steps: Mapping[str, tuple[CardStep, ...]],
    gpu: str,
    width: int,
) -> CardSpeedup:
    known = {step.gpus: step.seconds for step in steps.get(gpu, ())}
    if width not in known:
        problem = f"there is no step on {width} GPUs of {show_value(gpu)}"
        raise DataError("width", problem, f"known on these: {', '.join(map(str, known)) or 'none'}")
    tables = {}
    for name, own in steps.items():
        widths = [step.gpus for step in own]
        doubted = 1 + len(list_doubts(model, clusters[name]))
        of_type = 0.0 if name == gpu else math.log1p(_TYPE_ERROR * doubted)
        of_width = [math.log1p(find_error(model, clusters[name], each, width)) for each in widths]
        tables[name] = TableSpeedup(
            gpus=widths,
            speedup=round_shared([known[width] / step.seconds for step in own]),
            provenance=Evidence.CARD.value,
            error=round_shared(np.expm1(np.hypot(of_width, of_type))),
        )
    return CardSpeedup(model=model, clusters=dict(clusters), reference_width=width, speedup=tables, steps=dict(steps))


def read_card_speedup(path: Path, gpus: Sequence[str], widths: Sequence[int]) -> CardSpeedup:
    """Read what ``optplan import card`` wrote, or a card, whose speedup is computed on types of GPU."""
    data = read_data(path)
    if isinstance(data, Mapping) and "steps" in data:
        made = CardSpeedup.parse(data, path=path.name)
        width = made.reference_width
        own = (gpu for gpu, table in made.speedup.items() if width in table.gpus)
        if not any(made == made.relative_to(gpu, width) for gpu in own):
            problem = "its speedups and errors do not follow from its steps, which are what counts"
            raise DataError(
                path.name, problem, "make it anew by `optplan import card`; give what is measured otherwise"
            )
        return made
    if isinstance(data, Mapping) and "speedup" in data:
        raise DataError(path.name, "has speedups without a model card", "give what was measured by --throughput")
    if not gpus:
        fix = f"say it by --gpu, or give what `optplan import card {path.name} --gpu TYPE` writes"
        raise DataError(path.name, "is a card, and the log does not say on which type of GPU its jobs ran", fix)
    return card(path, gpus, widths=[width for width in widths if width <= LARGEST_WIDTH])


def _check_widths(widths: Sequence[int]) -> list[int]:
    """Return the widths in order; refuse those that nothing was compared with."""
    counts = list(widths)
    if not counts or not all(map(_is_count, counts)):
        raise DataError("widths", f"got {show_value(counts)}", "give whole numbers of GPUs from 1 on")
    wanted = sorted({int(each) for each in counts})
    if wanted[-1] > LARGEST_WIDTH:
        problem = f"got {wanted[-1]:,}; a card is validated up to {LARGEST_WIDTH} GPUs, and measured speeds fall beyond"
        raise DataError("widths", problem, f"end at {LARGEST_WIDTH}, or measure the wider ones")
    return wanted


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


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
