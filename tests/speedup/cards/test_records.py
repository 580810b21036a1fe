"""Records of model cards: what is filled in, what is refused, and the types of GPUs."""

from __future__ import annotations

import pytest

from optplan.errors import DataError
from optplan.schema import Fields
from optplan.speedup.cards.records import ModelCard, load_accelerators, make_cluster

STEP: Fields = {"sequence_length": 2048, "global_batch": 256}


def test_parameters_follow_from_the_architecture() -> None:
    """12 h² in each of 24 layers of 2,048 and an embedding of 50,000 by 2,048: 1,207,959,552 + 102,400,000."""
    card = ModelCard(layers=24, hidden_size=2048, vocabulary=50_000, **STEP)
    assert card.parameters == 1_310_359_552
    assert card.layer_parameters == 12 * 2048**2
    assert card.tokens == 2048 * 256
    assert card.assumed == ("1.31e+09 parameters (12 h² in a layer, and the embedding)",)
    untied = ModelCard(layers=24, hidden_size=2048, vocabulary=50_000, tied_embeddings=False, **STEP)
    assert untied.parameters == card.parameters + 102_400_000
    assert untied.layer_parameters == card.layer_parameters


@pytest.mark.parametrize(
    ("parameters", "layers", "hidden"),
    [(125e6, 12, 768), (1.3e9, 24, 2048), (6.7e9, 32, 4096), (13e9, 40, 5120), (175e9, 96, 12288)],
)
def test_the_usual_shape_of_so_many_parameters(parameters: float, layers: int, hidden: int) -> None:
    """The shapes of GPT-3's models come out of their numbers of parameters (table 2.1 of its paper)."""
    card = ModelCard(parameters=parameters, **STEP)
    assert (card.layers, card.hidden_size, card.vocabulary) == (layers, hidden, 50_257)
    assert card.assumed == (
        "vocabulary of 50,257 (GPT-3's)",
        f"{layers} layers of hidden size {hidden:,} (by GPT-3's shapes)",
    )


def test_what_is_said_of_the_shape_stays() -> None:
    """Of 1.31e9 parameters in layers of 2,048 there are 24, and of 24 layers each is 2,048 wide."""
    known = {"parameters": 1_310_359_552, "vocabulary": 50_000, **STEP}
    assert ModelCard(hidden_size=2048, **known).layers == 24
    assert ModelCard(layers=24, **known).hidden_size == 2048


def test_a_card_that_is_read_again_is_the_same() -> None:
    """What was filled in is written, and said once."""
    card = ModelCard(parameters=7e9, **STEP)
    assert ModelCard.parse(card.to_json_data()) == card


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "parameters, or layers and hidden_size, are needed"),
        ({"layers": 24}, "parameters, or layers and hidden_size, are needed"),
        ({"parameters": "7b"}, "^parameters: got '7b'; a number from 1 to 1e[+]15 is needed$"),
        ({"parameters": 1e300}, "^parameters: got 1e[+]300; a number from 1 to 1e[+]15 is needed$"),
        ({"parameters": 7e9, "layers": True}, "^layers: got True; a number from 1"),
        ({"parameters": 7e9, "tied_embeddings": "no"}, "tied_embeddings: got 'no'; true or false is needed"),
        ({"parameters": 7e9, "assumed": "nothing"}, "assumed: got 'nothing'; a list is needed"),
        ({"parameters": 7e9, "layers": 32, "hidden_size": 1024}, "7e[+]09 parameters are 15 times what 32 layers of"),
        (
            {"parameters": 1e7},
            r"are 0[.]4\d times what.* or say what is assumed here .vocabulary of 50,257.*, 12 layers",
        ),
        ({"parameters": 7e9, "lora": {"rank": 16}}, "lora: adapters train few of the weights"),
        ({"parameters": 7e9, "experts": 8}, "experts: got 8; mixtures of experts are not computed"),
        ({"parameters": 7e9, "experts": True}, "experts: got True; mixtures of experts are not computed"),
        ({"parameters": 7e9, "layers": 20_000}, "^layers: got 20000; a number from 1 to 10000 is needed$"),
        ({"parameters": 7e9, "hidden_size": 1}, "^hidden_size: got 1; a number from 8 to 1e[+]06 is needed$"),
        (
            {"parameters": 7e9, "hidden_size": 64},
            "^hidden_size: got 64, of which 7e[+]09 parameters are 142,350 layers",
        ),
        ({"parameters": 7e9, "precision": "fp8"}, "precision: got 'fp8'; allowed: bf16, fp16"),
        ({"parameters": 7e9, "batch": 8}, "batch: unknown field 'batch'; known: "),
    ],
)
def test_cards_that_are_refused(fields: Fields, message: str) -> None:
    """What is missing, contradicts itself, or is not computed is said."""
    with pytest.raises(DataError, match=message):
        ModelCard(**STEP, **fields)


def test_neither_adapters_nor_experts_may_be_said() -> None:
    """A card that says that it has none is taken."""
    assert ModelCard.parse({"parameters": 7e9, "lora": False, "experts": 1, **STEP}) == ModelCard(
        parameters=7e9, **STEP
    )


def test_every_type_of_gpu_has_its_data_and_source() -> None:
    """Figures are in the range of GPUs, links are not faster than memory, and sources name a data sheet."""
    known = load_accelerators()
    assert {name for name, gpu in known.items() if gpu.validated} == {"a100-40gb", "a100-80gb", "h100"}
    assert {"h200", "b200", "l40s"} <= set(known)
    for gpu in known.values():
        assert 5e13 < gpu.peak_flops < 1e16
        assert gpu.network_bytes_per_s < gpu.nvlink_bytes_per_s * 2 < gpu.hbm_bytes_per_s
        assert "datasheet" in gpu.source


def test_a_cluster_is_as_usual_for_its_type_unless_said() -> None:
    """DGX H100 has 8 GPUs in a node and 400 Gbit/s, 50 GB/s, for each; A100 half of that."""
    usual = make_cluster("H100")
    assert (usual.gpus_per_node, usual.network_bytes_per_s_per_gpu) == (8, 50e9)
    assert make_cluster("a100-80gb").network_bytes_per_s_per_gpu == 25e9
    own = make_cluster("h100", gpus_per_node=4, network_bytes_per_s=12.5e9)
    assert (own.gpus_per_node, own.network_bytes_per_s_per_gpu) == (4, 12.5e9)


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        ("a100", "say which to `optplan import card`, as in --gpu a100=a100-40gb or a100=a100-80gb"),
        ("h10", "did you mean 'h100'?"),
        ("tpu", "known: a100-40gb, "),
    ],
)
def test_types_that_are_not_known(gpu: str, message: str) -> None:
    """The nearest name, or those that it stands for."""
    with pytest.raises(DataError, match=f"gpu: no such type with data for model cards: '{gpu}'; {message[:-1]}"):
        make_cluster(gpu)
