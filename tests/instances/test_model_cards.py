"""Model cards from files, and the tables that they become: the law of step times is a small one made up here."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import optplan
from optplan.errors import DataError
from optplan.instances.files import write_json
from optplan.instances.model_cards import CardSpeedup, read_card_speedup, read_model_card
from optplan.speedup.cards.records import Cluster, ModelCard, make_cluster
from optplan.speedup.cards.steps import Layout, StepEstimate, find_error

CARD = ModelCard(parameters=8e9, sequence_length=4096, global_batch=256)
#: As Llama 3 of 8 billion parameters says it.
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
STEP = {"sequence_length": 4096, "global_batch": 256}


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 16 bytes of a parameter fit on all GPUs, and a step take 64 s over the width and 1 s."""

    def estimate(card: ModelCard, cluster: Cluster, widths: Sequence[int]) -> list[StepEstimate | None]:
        gpu = cluster.accelerator
        pace = 64.0 * 989.4e12 / gpu.peak_flops
        memory = {width: 16.0 * card.parameters / width for width in widths}
        fitting = [width for width in widths if memory[width] <= gpu.memory_bytes]
        layouts = {width: Layout(width, 1, 1, micro_batch=1, shard=3, checkpointing=False) for width in fitting}
        return [
            StepEstimate(width, pace / width + 1.0, layouts[width], memory[width], 8) if width in fitting else None
            for width in widths
        ]

    monkeypatch.setattr("optplan.instances.model_cards.estimate_steps", estimate)


def _write(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_card_in_yaml(tmp_path: Path) -> None:
    """The file's name is the model's; what is said besides goes first."""
    path = tmp_path / "llama.yaml"
    path.write_text("parameters: 8e9\nsequence_length: 2048\nglobal_batch: 256\n", encoding="utf-8")
    assert read_model_card(path) == CARD.replace(name="llama", sequence_length=2048)
    assert read_model_card(path, {"sequence_length": 4096}).sequence_length == 4096


def test_the_parameters_of_a_configuration(tmp_path: Path) -> None:
    """Llama 3 8B has 8,030,261,248 parameters, of which its 65 norms of 4,096 are not counted.

    A layer: 2 x 4096² of queries and output, 2 x 4096 x 1024 of keys and values, 3 x 4096 x 14336 after them.
    """
    card = read_model_card(_write(tmp_path / "config.json", CONFIG), STEP)
    assert card.parameters == 8_030_261_248 - 65 * 4096
    assert card.layer_parameters == 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert (card.layers, card.hidden_size, card.vocabulary, card.assumed) == (32, 4096, 128256, ())


def test_a_configuration_without_gates_and_groups(tmp_path: Path) -> None:
    """GPT-NeoX: 4 h² of attention and 2 h times the inner size in a layer; one matrix for both ends."""
    config = {**CONFIG, "model_type": "gpt_neox", "intermediate_size": 4 * 4096, "tie_word_embeddings": True}
    del config["num_key_value_heads"]
    card = read_model_card(_write(tmp_path / "config.json", config), STEP)
    assert card.parameters == 32 * 12 * 4096**2 + 128256 * 4096


@pytest.mark.parametrize(
    ("data", "said", "message"),
    [
        ([1], STEP, "card.json: is no model card"),
        ({"parameters": 8e9}, {}, "does not say sequence_length and global_batch; say sequence_length: N [(]tokens[)]"),
        (CONFIG, {"sequence_length": 4096}, "does not say global_batch; say global_batch: N [(]sequences of a step"),
        (CONFIG, {**STEP, "sequence_length": 16384}, "sequence_length: got 16,384, and positions end at 8,192"),
        ({**CONFIG, "model_type": "bert"}, STEP, "model_type: got 'bert', which is no dense decoder"),
        ({**CONFIG, "model_type": "mixtral", "num_local_experts": 8}, STEP, "num_local_experts: got 8: a mixture of"),
        ({**CONFIG, "num_experts": True}, STEP, "num_experts: got True: a mixture of"),
        ({**CONFIG, "is_encoder_decoder": True}, STEP, "is_encoder_decoder: got true; steps of encoders"),
        ({**CONFIG, "model_type": "lama"}, STEP, "did you mean 'llama'[?]"),
        ({**CONFIG, "hidden_size": None}, STEP, "hidden_size: got None; a whole number above zero is needed"),
        ({**CONFIG, "num_key_value_heads": "8"}, STEP, "num_key_value_heads: got '8'; a whole number above zero"),
        ({**STEP, "parameters": -1}, {}, "card.json: parameters: got -1"),
    ],
)
def test_cards_that_are_refused(tmp_path: Path, data: Any, said: dict[str, Any], message: str) -> None:  # noqa: ANN401
    """Encoders, mixtures of experts, and what is missing."""
    with pytest.raises(DataError, match=message):
        read_model_card(_write(tmp_path / "card.json", data), said)


@pytest.mark.usefixtures("law")
def test_a_table_begins_where_the_memory_is_enough() -> None:
    """128 GB of states fit on 2 H100 of 80 GB: steps of 33, 17 and 9 s on 2, 4 and 8, relative to the first."""
    made = optplan.card(CARD, "h100", widths=[8, 4, 2, 1])
    assert made.reference_width == 2
    table = made.speedup["h100"]
    assert table.gpus.tolist() == [2, 4, 8]
    assert table.speedup.tolist() == pytest.approx([1.0, 33 / 17, 33 / 9], rel=1e-8)
    assert table.evidence_at(table.gpus) == ["card"] * 3
    low, high = table.band_at(table.gpus, made.reference_width)
    off = [1.0 + find_error(CARD, make_cluster("h100"), gpus, 2) for gpus in (2, 4, 8)]
    assert (high / table.speedup)[0].tolist() == pytest.approx(off)
    assert (table.speedup / low)[0].tolist() == pytest.approx(off)
    assert [(step.gpus, step.seconds) for step in made.steps["h100"]] == [(2, 33.0), (4, 17.0), (8, 9.0)]
    told = made.describe()
    assert told["GPUs h100"].endswith("; from 2 GPUs by memory to 256 by what was compared with measured steps")
    assert "assumed: vocabulary of 50,257" in told["model card"]
    wider = optplan.card(CARD, "h100", widths=[8]).describe()["GPUs h100"]
    assert "from 2 GPUs by memory" in wider  # whatever was asked for


@pytest.mark.usefixtures("law")
def test_another_width_becomes_the_reference() -> None:
    """Of steps of 33, 17 and 9 s the second becomes 1, and is exact."""
    made = optplan.card(CARD, "h100", widths=[2, 4, 8]).relative_to("h100", 4)
    table = made.speedup["h100"]
    assert made.reference_width == 4
    assert table.speedup.tolist() == pytest.approx([17 / 33, 1.0, 17 / 9], rel=1e-8)
    assert table.error is not None
    assert [error > 0.0 for error in table.error.tolist()] == [True, False, True]
    with pytest.raises(DataError, match="there is no step on 16 GPUs of 'h100'; known on these: 2, 4, 8"):
        made.relative_to("h100", 16)
    with pytest.raises(DataError, match="there is no step on 4 GPUs of 'a100'; known on these: none"):
        made.relative_to("a100", 4)
    with pytest.raises(DataError, match="gpus: name no type of GPU; give one, such as h100"):
        optplan.card(CARD, [], widths=[8])


@pytest.mark.usefixtures("law")
def test_several_types_are_relative_to_the_first() -> None:
    """The model fits one H200, in 65 s; two H100 take 33 s, so that one H200 has a speed of 33 / 65."""
    made = optplan.card(CARD, {"old": "h100", "new": "h200"}, widths=[1, 2])
    assert list(made.speedup) == ["old", "new"]
    assert made.reference_width == 2
    table = made.speedup["new"]
    assert table.speedup.tolist() == pytest.approx([33 / 65, 1.0], rel=1e-8)
    # Types are off by 31 %, by as much again as H200 was never compared; widths besides, as if independent.
    assert table.error is not None
    width = find_error(CARD, make_cluster("h200"), 1, 2)
    both = math.exp(math.hypot(math.log(1.62), math.log1p(width))) - 1.0
    assert table.error.tolist() == pytest.approx([both, 0.62], rel=1e-8)
    assert made.describe()["GPUs new"].endswith("not validated: h200 GPUs")


@pytest.mark.parametrize(
    ("joined", "message"),
    [
        ({"network_gbit_per_s": 0.0}, r"network_gbit_per_s: got 0.0 Gbit/s; 0.01 to 100,000 for each GPU are allowed"),
        ({"network_gbit_per_s": 1e308}, r"network_gbit_per_s: got 1e[+]308 Gbit/s"),
        ({"gpus_per_node": 0}, r"gpus_per_node: got 0; input should be greater than or equal to 1"),
    ],
)
def test_nodes_and_networks_that_are_refused(joined: dict[str, Any], message: str) -> None:
    """Zero is no default."""
    with pytest.raises(DataError, match=message):
        optplan.card(CARD, "h100", widths=[8], **joined)


@pytest.mark.usefixtures("law")
def test_nodes_and_network_are_as_said() -> None:
    """What is said of the GPUs' links stands in the source, for each GPU."""
    made = optplan.card(CARD, "h100", widths=[2], gpus_per_node=4, network_gbit_per_s=100.0, precision="fp16")
    assert "h100, 4 in a node, 100 Gbit/s for each between nodes; from 2 GPUs" in made.describe()["GPUs h100"]
    assert "fp16" in made.describe()["model card"]


@pytest.mark.usefixtures("law")
@pytest.mark.parametrize(
    ("gpu", "widths", "fields", "message"),
    [
        ("h100", [1], {}, "no layout fits the 80 GB of h100 on 1 GPUs; 2 GPUs are enough"),
        ("h100", [1, 2], {"parameters": 1e12}, "no layout fits the 80 GB of h100 on 1 to 2 GPUs; 256 GPUs are enough"),
        ("t4", [1, 2], {"parameters": 1e12, "precision": "fp16"}, "none up to 256 GPUs does; take a larger GPU"),
        ("h100", [512], {}, "widths: got 512; a card is validated up to 256 GPUs"),
        ("h100", [0, 8], {}, r"widths: got \[0, 8\]; give whole numbers of GPUs from 1 on"),
        ("h100", [True], {}, r"widths: got \[True\]; give whole numbers of GPUs from 1 on"),
        ("h100", [8.5], {}, r"widths: got \[8.5\]; give whole numbers of GPUs from 1 on"),
        ("v100", [8], {}, "precision: v100 has no bf16"),
        ("t4", [8], {"parameters": 6e7, "precision": "fp16"}, "parameters: 6e[+]07 on t4; steps of small networks"),
        ("a100", [8], {}, "gpu: no such type with data for model cards: 'a100'"),
    ],
)
def test_questions_that_are_refused(gpu: str, widths: list[int], fields: dict[str, Any], message: str) -> None:
    """What does not fit says what would; beyond what was validated nothing is said."""
    shape = {"layers": None, "hidden_size": None, "vocabulary": None, "assumed": ()}
    said = {**CARD.to_json_data(), **shape, **fields} if fields else CARD.to_json_data()
    with pytest.raises(DataError, match=message):
        optplan.card(ModelCard.parse(said), gpu, widths=widths)


@pytest.mark.usefixtures("law")
def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    """A log takes the file of a table as it stands; a card itself is computed for its type of GPU."""
    made = optplan.card(CARD, "h100", widths=[2, 4])
    path = tmp_path / "table.json"
    write_json(made, path)
    assert read_card_speedup(path, [], [8]) == made
    data = made.to_json_data()
    data["speedup"]["h100"]["error"] = 0.01
    with pytest.raises(DataError, match=r"edited\.json: its speedups and errors do not follow from its steps"):
        read_card_speedup(_write(tmp_path / "edited.json", data), [], [8])
    card = _write(tmp_path / "card.json", {"parameters": 8e9, **STEP})
    assert read_card_speedup(card, ["h100"], [2, 4, 512]).speedup == made.speedup
    with pytest.raises(DataError, match="the log does not say on which type of GPU its jobs ran"):
        read_card_speedup(card, [], [2])
    measured = _write(tmp_path / "measured.json", {"speedup": {"h100": {"gpus": [1, 2], "speedup": [1.0, 1.9]}}})
    with pytest.raises(DataError, match=r"measured\.json: has speedups without a model card; give .* by --throughput$"):
        read_card_speedup(measured, ["h100"], [2])
    with pytest.raises(DataError, match=r"table\.json: model"):
        read_card_speedup(_write(path, {"steps": {}}), [], [8])
    edited = made.to_json_data()
    edited["steps"]["h100"].pop()
    with pytest.raises(DataError, match="clusters, steps and speedups have other types or widths"):
        CardSpeedup.parse(edited)
    with pytest.raises(DataError, match="clusters, steps and speedups have other types or widths"):
        CardSpeedup.parse({**made.to_json_data(), "clusters": {}})
