"""``optplan import card``, and what ``optplan import log --card`` makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance

if TYPE_CHECKING:
    from tests.conftest import Runner

CARD = "parameters: 1.3e9\nsequence_length: 2048\nglobal_batch: 256\n"
#: Ten jobs of four hours on eight GPUs, one an hour.
LOG = "name,submit,hours,gpus,gpu_type,state\n" + "".join(
    f"llm-{hour},2026-03-02T{hour:02d}:00,4,8,h100,finished\n" for hour in range(10)
)


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """Write a card."""
    path = tmp_path / "llama.yaml"
    path.write_text(CARD, encoding="utf-8")
    return path


@pytest.fixture
def log(tmp_path: Path) -> tuple[str, ...]:
    """Return the command on a small log of one class."""
    path = tmp_path / "week.csv"
    path.write_text(LOG, encoding="utf-8")
    return ("import", "log", str(path), "--from", "csv", "--class-pattern", "^[a-z]+")


def test_a_card_becomes_a_table_and_a_log_with_it_a_plan(
    run: Runner, card: Path, log: tuple[str, ...], tmp_path: Path
) -> None:
    """Three commands from a card and a log to an answer; it says that its speedups come from a card."""
    table, mine = tmp_path / "llama.json", tmp_path / "mine.json"
    told = run("import", "card", card, "--gpu", "h100", "--nodes-of", "8", "--widths", "8..64", "-o", table)
    assert (told.code, told.err) == (0, f"wrote {table}\n")
    assert "90 % band" in told.out
    assert "micro batch" in told.out
    told = run(*log, "--card", f"llm={table}", "--budget", "80gpu", "-o", mine)
    assert told.code == 0
    instance = read_instance(mine, BoaInstance)
    llm = instance.classes["llm"]
    assert (llm.reference_width, llm.size_gpu_hours) == (8, 4.0)  # what ran is what the log says
    widths = llm.speedup["h100"].known_widths()
    assert widths is not None
    assert llm.speedup["h100"].evidence_at(widths) == ["card"] * 4
    assert "from a model card: llama, 1.3 billion parameters" in instance.source["speedups"]
    solved = run("solve", mine, "--json")
    assert solved.code == 0
    assert json.loads(solved.out)["evidence"] == {"card": 1.0}


def test_the_card_itself_is_taken_for_the_types_of_the_log(run: Runner, card: Path, log: tuple[str, ...]) -> None:
    """Widths are those of the log and the powers of two up to the widest, and no others."""
    told = run(*log, "--card", f"llm={card}", "--json")
    assert told.code == 0
    made = json.loads(told.out)["classes"]["llm"]
    assert made["speedup"]["h100"]["gpus"] == [1, 2, 4, 8]
    wider = json.loads(run(*log, "--card", f"llm={card}", "--max-width", "40", "--json").out)["classes"]["llm"]
    assert wider["speedup"]["h100"]["gpus"][-2:] == [16, 32]


def test_types_keep_the_names_that_instances_give_them(run: Runner, card: Path) -> None:
    """Two types, of which one is called otherwise, in the units that users write."""
    told = run(
        *("import", "card", card, "--gpu", "SXM=h100", "--gpu", "h200", "--network", "50GB/s"),
        *("--widths", "8,24", "--global-batch", "192", "--sequence-length", "1024", "--json"),
    )
    assert told.code == 0
    made = json.loads(told.out)
    assert list(made["speedup"]) == ["SXM", "h200"]
    assert made["clusters"]["SXM"]["network_bytes_per_s_per_gpu"] == 50e9
    assert made["speedup"]["SXM"]["gpus"] == [8, 24]
    assert (made["model"]["global_batch"], made["model"]["sequence_length"]) == (192, 1024)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpu", "h10"), "--gpu: no such type with data for model cards: 'h10'; did you mean 'h100'?"),
        (("--gpu", "a="), "--gpu: got 'a='; each type once is needed, as in h100 or H100-SXM=h100"),
        (("--gpu", "h100", "--widths", "8..4"), "--widths: got '8..4'; doublings from a first to a last number"),
        (("--gpu", "h100", "--widths", "8..512"), "--widths: got 512; a card is validated up to 256 GPUs"),
        (("--gpu", "h100", "--network", "400"), "--network: '400' has no known unit of bandwidth; use gbit or GB/s"),
        (("--gpu", "h100", "--network", "1e308gbit"), "--network: got 1e+308 Gbit/s; 0.01 to 100,000 for each GPU"),
        (("--gpu", "h100", "--global-batch", "0"), "0 is not in the range x>=1"),
        (("--gpu", "v100"), "precision: v100 has no bf16; say precision: fp16"),
    ],
)
def test_options_that_are_refused(run: Runner, card: Path, options: tuple[str, ...], message: str) -> None:
    """Messages name the option, or the field of the card."""
    told = run("import", "card", card, *options)
    assert told.code in (1, 2)
    assert message in told.err


def test_messages_name_the_fields_of_a_file(run: Runner, card: Path) -> None:
    """What the file lacks is a field of the file, which an option may say too."""
    card.write_text("parameters: 7e9\nsequence_length: 2048\n", encoding="utf-8")
    told = run("import", "card", card, "--gpu", "h100")
    assert "llama.yaml: does not say global_batch; say global_batch: N (sequences of a step over all GPUs)" in told.err


def test_cards_of_a_log_that_are_refused(run: Runner, card: Path, log: tuple[str, ...]) -> None:
    """A class that is not there, none at all, and a type that says nothing."""
    assert "there is no class 'lm'; did you mean 'llm'?" in run(*log, "--card", f"lm={card}", "--json").err
    both = run(*log, "--card", f"llm={card}", "--assume", "llm=linear", "--json").err
    assert "--assume, --card: class 'llm' is given both; leave one of them away" in both
    assert "say of which class it is, as in llm=" in run(*log, "--card", str(card), "--json").err
    told = run(*log, "--gpu", "h100", "--card", f"llm={card}", "--json")
    assert told.code == 0
    log_path = Path(log[2])
    log_path.write_text(LOG.replace(",h100,", ",,"), encoding="utf-8")
    assert "the log does not say on which type of GPU its jobs ran" in run(*log, "--card", f"llm={card}", "--json").err


def test_what_was_measured_beside_a_card_is_compared_where_the_log_did_not_run(
    run: Runner, card: Path, log: tuple[str, ...], tmp_path: Path
) -> None:
    """Jobs ran on 8 GPUs; on 24 of them measurements are as fast as on 8, where the card says nearly 3 times."""
    rates = tmp_path / "rates.csv"
    rates.write_text("class,gpus,samples_per_s\nllm,8,100\nllm,24,100\n", encoding="utf-8")
    told = run(*log, "--card", f"llm={card}", "--throughput", rates, "--json")
    assert told.code == 0
    assert "classes.llm.speedup: measurements on 8 and 24 GPUs say 1, the card 2." in told.err


def test_a_class_of_which_no_run_completed(run: Runner, card: Path, log: tuple[str, ...]) -> None:
    """Its card says the speedup, but nothing says how long such a job takes if it completes."""
    Path(log[2]).write_text(LOG.replace("finished", "failed"), encoding="utf-8")
    told = run(*log, "--card", f"llm={card}", "--json")
    assert told.code == 0
    said = "classes.llm: no run completed; sizes are those of runs that ended otherwise, perhaps too small"
    assert said in told.err


def test_a_log_of_several_types(run: Runner, card: Path, log: tuple[str, ...]) -> None:
    """A class has its card's curve on the types where it ran, and on the others of the log by the card's ratio."""
    elsewhere = "other-1,2026-03-02T03:00,4,8,a100-80gb,finished\n"
    Path(log[2]).write_text(LOG + elsewhere, encoding="utf-8")
    told = run(*log, "--card", f"llm={card}", "--json")
    assert told.code == 0
    made = json.loads(told.out)["classes"]
    assert list(made["other"]["speedup"]) == ["a100-80gb"]
    here, there = made["llm"]["speedup"]["h100"], made["llm"]["speedup"]["a100-80gb"]
    assert (made["llm"]["reference_width"], made["llm"]["epoch_size_gpu_hours"]) == (8, [4.0])
    assert (here["speedup"][-1], here["error"][-1]) == (1.0, 0.0)  # on eight, where it ran
    assert 0.3 < there["speedup"][-1] < 0.6  # an A100 has a third of an H100's peak
    assert there["error"][-1] == pytest.approx(0.31)
    # Run on both, the log's own ratio counts: eight hours there are half the speed.
    Path(log[2]).write_text(LOG + LOG.partition("\n")[2].replace(",4,8,h100", ",8,8,a100-80gb"), encoding="utf-8")
    both = json.loads(run(*log, "--card", f"llm={card}", "--json").out)["classes"]["llm"]["speedup"]
    old, new = both["a100-80gb"], both["h100"]
    assert new["speedup"][new["gpus"].index(8)] == pytest.approx(2 * old["speedup"][old["gpus"].index(8)])
