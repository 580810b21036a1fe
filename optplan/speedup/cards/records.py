"""What a speedup from a model card is computed of: the model and its step, the GPUs, and how they are joined."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from optplan.errors import DataError, nearest_name_hint, show_value
from optplan.schema import NUMBER, Count, FrozenModel, PositiveAmount

#: Where they stand; ``benchmarks/fit_cards.py`` writes what it fits there.
CONSTANTS = Path(__file__).parent / "constants.json"


class Constants(FrozenModel):
    """Numbers of the law that depend neither on the model nor on the data of a GPU; the file says what each means."""

    ampere_efficiency: PositiveAmount
    hopper_efficiency: PositiveAmount
    attention_efficiency: PositiveAmount
    activation_passes: PositiveAmount
    launch_s: PositiveAmount
    link_efficiency: PositiveAmount
    latency_s: PositiveAmount
    optimizer_shard_traffic: PositiveAmount
    step_s: PositiveAmount
    recomputation: PositiveAmount
    weight_bytes: PositiveAmount
    state_bytes: PositiveAmount
    full_shard_bytes: PositiveAmount
    activation_bytes: PositiveAmount
    checkpoint_bytes: PositiveAmount
    logit_bytes: PositiveAmount
    context_bytes: PositiveAmount
    usable_memory: PositiveAmount
    pair_error: PositiveAmount
    error_beyond: PositiveAmount
    error_below: PositiveAmount
    error_elsewhere: PositiveAmount


@cache
def load_constants() -> Constants:
    """Return the constants of ``constants.json``."""
    rows = json.loads(CONSTANTS.read_text(encoding="utf-8"))["constants"]
    return Constants(**{name: row["value"] for name, row in rows.items()})


#: Parameters, layers and hidden sizes of GPT-3's models: the usual shapes of decoders of a size.
_USUAL_SHAPES = np.array(
    [
        (125e6, 12, 768),
        (350e6, 24, 1024),
        (760e6, 24, 1536),
        (1.3e9, 24, 2048),
        (2.7e9, 32, 2560),
        (6.7e9, 32, 4096),
        (13e9, 40, 5120),
        (175e9, 96, 12288),
    ]
)
#: Their vocabulary.
_USUAL_VOCABULARY = 50_257
#: Weights of a layer over the square of the hidden size: four matrices of attention, two four times as large after it.
_LAYER_SQUARES = 12
#: Factor by which parameters may differ from those of layers and hidden size: grouped queries and gates stay within.
_LARGEST_RATIO = 2.0
#: Least and most that decoders have of each; what is outside is a slip of the pen.
_SIZES = {"parameters": (1, 1e15), "layers": (1, 10_000), "hidden_size": (8, 1e6), "vocabulary": (1, 1e9)}
#: What usual layers and hidden sizes are multiples of, so that pipelines and tensor-parallel groups divide them.
_LAYER_STEP, _HIDDEN_STEP = 4, 256


class ModelCard(FrozenModel):
    """A dense decoder model and one step of its training: an optimiser's step on a global batch.

    Parameters, or layers and hidden size, have to be said; what is left out of these is filled in from the usual shapes
    (those of GPT-3: Brown et al. 2020, table 2.1; twelve times the hidden size squared in a layer), and ``assumed``
    says so.
    """

    name: str = ""  #: What messages call the model.
    parameters: PositiveAmount  #: Of the whole model, embeddings included.
    layers: Count
    hidden_size: Count
    vocabulary: Count
    sequence_length: Count  #: Tokens of a sequence.
    global_batch: Count  #: Sequences of a step, over all GPUs.
    #: Sequences; where it is said, the batch grows with the GPUs as far as that pays, and a table is of the progress.
    critical_batch: PositiveAmount | None = None
    tied_embeddings: bool = True  #: Whether the matrix before the first layer is also that after the last.
    precision: Literal["bf16", "fp16"] = "bf16"  #: Of products; the optimiser's states are fp32.
    #: Whether activations are computed again in the backward pass; None for whatever is faster and fits.
    checkpointing: bool | None = None
    assumed: tuple[str, ...] = ()  #: What was filled in, in words.

    if TYPE_CHECKING:  # what a person has to write

        def __init__(self, *, sequence_length: int, global_batch: int, **others: Any) -> None: ...  # noqa: ANN401 - any field

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:  # noqa: ANN401 - whatever a file holds
        return _fill_in(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _check(self) -> ModelCard:
        usual = _LAYER_SQUARES * self.layers * self.hidden_size**2 + self.embedding_parameters
        ratio = self.parameters / usual
        if not 1.0 / _LARGEST_RATIO < ratio < _LARGEST_RATIO or self.layer_parameters <= 0.0:
            others = f", or say what is assumed here ({', '.join(self.assumed)})" if self.assumed else ""
            raise ValueError(
                f"{self.parameters:,.4g} parameters are {ratio:.2g} times what {self.layers:,} layers of hidden size "
                f"{self.hidden_size:,} have in a dense decoder ({usual:,.4g}); correct one of them{others}, and give "
                "no mixture of experts, which is not computed"
            )
        return self

    @property
    def embedding_parameters(self) -> float:
        """Parameters before the first layer and after the last."""
        return float(self.vocabulary * self.hidden_size * (1 if self.tied_embeddings else 2))

    @property
    def layer_parameters(self) -> float:
        """Parameters of one layer."""
        return (self.parameters - self.embedding_parameters) / self.layers

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.sequence_length * self.global_batch


def _fill_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse what is not a dense decoder, and fill in what the usual shapes say; pydantic reports the rest."""
    card = dict(data)
    if card.pop("lora", None):
        raise ValueError("lora: adapters train few of the weights, and steps of these are not computed; measure them")
    experts = card.pop("experts", None)
    if experts is True or experts not in (None, 0, 1):
        raise ValueError(f"experts: got {show_value(experts)}; mixtures of experts are not computed; measure them")
    sizes: dict[str, Any] = {key: card.get(key) for key in _SIZES}
    said = card.get("assumed", ())
    for key, size in sizes.items():
        least, most = _SIZES[key]
        if size is not None and not (type(size) in (int, float) and least <= size <= most):
            raise ValueError(f"{key}: got {show_value(size)}; a number from {least} to {most:g} is needed")
    if type(tied := card.get("tied_embeddings", True)) is not bool:
        raise ValueError(f"tied_embeddings: got {show_value(tied)}; true or false is needed")
    if not isinstance(said, list | tuple):
        raise ValueError(f"assumed: got {show_value(said)}; a list is needed, or leave it out")
    is_shaped = sizes["layers"] is not None and sizes["hidden_size"] is not None
    if not is_shaped and sizes["parameters"] is None:
        raise ValueError("parameters, or layers and hidden_size, are needed")
    assumed: list[str] = []
    if sizes["vocabulary"] is None:
        sizes["vocabulary"] = _USUAL_VOCABULARY
        assumed.append(f"vocabulary of {_USUAL_VOCABULARY:,} (GPT-3's)")
    ends = sizes["vocabulary"] * (1 if tied else 2)
    if not is_shaped:
        sizes["layers"], sizes["hidden_size"] = _find_shape(sizes["parameters"], ends, sizes)
        if sizes["layers"] > _SIZES["layers"][1]:
            raise ValueError(
                f"hidden_size: got {sizes['hidden_size']:,}, of which {sizes['parameters']:,.4g} parameters are "
                f"{sizes['layers']:,} layers; correct one of them"
            )
        assumed.append(f"{sizes['layers']} layers of hidden size {sizes['hidden_size']:,} (by GPT-3's shapes)")
    if sizes["parameters"] is None:
        inner = _LAYER_SQUARES * sizes["layers"] * sizes["hidden_size"] ** 2
        sizes["parameters"] = float(inner + ends * sizes["hidden_size"])
        assumed.append(f"{sizes['parameters']:,.4g} parameters (12 h² in a layer, and the embedding)")
    return {**card, **sizes, "assumed": (*said, *assumed)}


def _find_shape(parameters: float, ends: float, known: Mapping[str, Any]) -> tuple[int, int]:
    """Return layers and hidden size of the usual shape with these parameters, keeping what is said of them."""
    layers, hidden = known["layers"], known["hidden_size"]
    if layers is None and hidden is not None:
        return max(1, round((parameters - ends * hidden) / (_LAYER_SQUARES * hidden**2))), hidden
    if layers is None:
        logs = np.log(_USUAL_SHAPES)
        typical = math.exp(np.interp(math.log(parameters), logs[:, 0], logs[:, 1]))
        layers = max(1, round(typical / _LAYER_STEP)) * _LAYER_STEP
    # The positive root of 12 layers h^2 + ends h = parameters.
    square = _LAYER_SQUARES * layers
    root = (math.sqrt(ends**2 + 4.0 * square * parameters) - ends) / (2.0 * square)
    return layers, max(1, round(root / _HIDDEN_STEP)) * _HIDDEN_STEP


class Accelerator(FrozenModel):
    """A type of GPU. Bandwidths are for one direction of one GPU."""

    name: str
    peak_flops: PositiveAmount  #: Of dense 16-bit products, a second.
    memory_bytes: PositiveAmount
    hbm_bytes_per_s: PositiveAmount
    nvlink_bytes_per_s: PositiveAmount  #: To the other GPUs of its node; over PCIe where it has no NVLink.
    network_bytes_per_s: PositiveAmount  #: To other nodes, unless a cluster says otherwise.
    gpus_per_node: Count  #: The same.
    bf16: bool = True  #: Whether it has it; the peak is of fp16 otherwise.
    validated: bool  #: Whether step times were compared with measured ones.
    source: str


class Cluster(FrozenModel):
    """GPUs of one type in equal nodes."""

    accelerator: Accelerator
    gpus_per_node: Annotated[int, Field(ge=1, le=1024), NUMBER]
    network_bytes_per_s_per_gpu: PositiveAmount  #: From a node to the others, for each of its GPUs, in one direction.


@cache
def load_accelerators() -> dict[str, Accelerator]:
    """Return the types of GPUs that are known, by name; their data has its sources with it."""
    data = json.loads((Path(__file__).parent / "accelerators.json").read_text(encoding="utf-8"))
    return {name: Accelerator(name=name, **row) for name, row in data["accelerators"].items()}


def make_cluster(gpu: str, *, gpus_per_node: int | None = None, network_bytes_per_s: float | None = None) -> Cluster:
    """Return GPUs of a known type in nodes; what is left out is as usual for the type."""
    known = load_accelerators()
    name = gpu.casefold()
    several = [f"{gpu}={each}" for each in known if each.startswith(f"{name}-")]
    if name not in known:
        said = f"say which to `optplan import card`, as in --gpu {' or '.join(several)}"
        hint = said if several else nearest_name_hint(name, known)
        raise DataError("gpu", f"no such type with data for model cards: {show_value(gpu)}", hint)
    kind = known[name]
    return Cluster(
        accelerator=kind,
        gpus_per_node=kind.gpus_per_node if gpus_per_node is None else gpus_per_node,
        network_bytes_per_s_per_gpu=(kind.network_bytes_per_s if network_bytes_per_s is None else network_bytes_per_s),
    )
