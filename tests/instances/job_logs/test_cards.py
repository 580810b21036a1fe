"""Speedups from model cards for the classes of a log, and where the log contradicts them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.records import Row
from optplan.instances.job_logs.speedups import (
    Measured,
    SpeedupSources,
    choose_card,
    find_contradiction,
    find_disagreement,
)
from optplan.instances.model_cards import CardSpeedup, CardStep
from optplan.speedup import TableSpeedup
from optplan.speedup.cards.records import ModelCard, make_cluster

#: Doubled GPUs are 1.9 times as fast, give or take 10 %.
TABLE = TableSpeedup(gpus=[8, 16, 32], speedup=[1.0, 1.9, 3.61], provenance="card", error=[0.0, 0.1, 0.1])
#: A model whose steps follow it.
MODEL = ModelCard(name="llama", parameters=8e9, sequence_length=4096, global_batch=256)
STEPS = tuple(
    CardStep(gpus=gpus, seconds=10.0 / speed, memory_bytes=4e10, layout=f"data {gpus}")
    for gpus, speed in ((8, 1.0), (16, 1.9), (32, 3.61))
)
CARD = CardSpeedup(
    model=MODEL,
    clusters={"h100": make_cluster("h100")},
    reference_width=8,
    speedup={"h100": TABLE},
    steps={"h100": STEPS},
)


def _contradict(points: list[tuple[int, float]], what: str = "completed runs") -> str:
    gpus, hours = np.array([gpus for gpus, _ in points]), np.array([hours for _, hours in points])
    said, wider = find_contradiction(TABLE, 8, gpus, hours, what)
    assert (wider > 1.0) is bool(said)
    return said


def _runs(*runs: tuple[int, float]) -> Jobs:
    """Make completed jobs of so many GPUs and hours."""
    return Jobs.of(Row("", "", "llm", "", 0.0, None, 3600.0 * hours, gpus, "h100", "", 0) for gpus, hours in runs)


def test_runs_that_contradict_a_card() -> None:
    """3.9 and 3 hours on 8 and 16 GPUs are a ratio of 1.3; the card says 1.9, from 1.9 / 1.1 to 1.9 x 1.1."""
    said = _contradict([(8, 3.9), (16, 3.0)])
    assert said == "completed runs on 8 and 16 GPUs say 1.3, the card 1.9 (1.7 to 2.1)"


def test_the_worst_contradiction_is_said() -> None:
    """8 to 32 GPUs are off by 3.61 / 1.3, more than 8 to 16; widths that the table lacks say nothing."""
    said = _contradict([(8, 3.9), (8, 3.9), (16, 3.0), (32, 3.0), (64, 9.0)], "measurements")
    assert said == "measurements on 8 and 32 GPUs say 1.3, the card 3.6 (3.3 to 4)"


@pytest.mark.parametrize(
    "points",
    [
        [(8, 4.0)],  # one width
        [(8, 4.0), (16, 4.0 / 1.75)],  # within the band: 1.727 to 2.09
        [(8, 4.0), (16, 4.0 / 2.05)],
        [(8, 2.0), (8, 8.0), (16, 1.6), (16, 6.4)],  # 1.25, but jobs differ by a factor of four
    ],
)
def test_what_does_not_contradict_a_card(points: list[tuple[int, float]]) -> None:
    """Nothing is said of a ratio within the band, or that the scatter of the runs explains."""
    assert _contradict(points) == ""


def test_widths_between_those_of_the_card() -> None:
    """Twelve GPUs are 1.9 to the power of log2(1.5) = 1.456 times as fast as 8, with the error of 16: 1.32 to 1.6."""
    assert _contradict([(8, 3.0), (12, 3.0 / 1.33)]) == ""
    assert _contradict([(8, 3.0), (12, 3.0)]) == "completed runs on 8 and 12 GPUs say 1, the card 1.5 (1.3 to 1.6)"


def test_between_two_widths_of_which_none_is_the_reference() -> None:
    """Errors of both widths count, as independent: 1.1 to the root of two, 1.144; 1.9 / 1.144 = 1.66."""
    assert _contradict([(16, 1.67), (32, 1.0)]) == ""
    assert _contradict([(16, 1.65), (32, 1.0)]).endswith("the card 1.9 (1.7 to 2.2)")


def test_measurements_of_one_width_that_contradict_one_another() -> None:
    """A quarter more is still the same; 100 and 160 are not, and more than twice as much has another reason."""
    assert find_disagreement("llm", np.array([8, 8, 16]), np.array([100.0, 125.0, 190.0])) == ""
    said = find_disagreement("llm", np.array([8, 16, 16]), np.array([100.0, 160.0, 100.0]))
    advice = "their mean is taken, measure again for a better one"
    assert said == f"measurements on 16 GPUs differ, from 100 to 160; {advice}"
    assert find_disagreement("llm", np.array([8, 8]), np.array([100.0, 200.0])).endswith(f"from 100 to 200; {advice}")
    message = (
        "classes.llm.speedup: measurements on 16 GPUs differ, from 100 to 201, more than noise explains; keep those "
    )
    with pytest.raises(DataError, match=re.escape(f"{message}of one setting, or measure it again")):
        find_disagreement("llm", np.array([8, 16, 16]), np.array([90.0, 201.0, 100.0]))


def test_measurements_of_two_widths_that_contradict_one_another() -> None:
    """Twice the GPUs are at most 2.5 times as fast, or memory is short on the fewer."""
    assert find_disagreement("llm", np.array([8, 16]), np.array([100.0, 250.0])) == ""
    assert find_disagreement("llm", np.array([8, 16]), np.array([100.0, 90.0])) == ""  # slower: nobody runs there
    said = find_disagreement("llm", np.array([16, 8, 32]), np.array([1900.0, 100.0, 2000.0]))
    assert said == (
        "measurements on 8 and 16 GPUs say 19 times as fast on 2 times the GPUs; unless memory is short on 8, correct "
        "them"
    )


def test_the_table_of_the_type_on_which_jobs_ran() -> None:
    """One table is taken whatever its GPUs are called; of several the one with the name of the log's."""
    faster = tuple(step.replace(seconds=step.seconds / 2.0) for step in STEPS)
    two = CardSpeedup(
        model=MODEL,
        clusters={"h100": make_cluster("h100"), "b200": make_cluster("b200")},
        reference_width=8,
        speedup={"h100": TABLE, "b200": TABLE.replace(speedup=[2.0, 3.8, 7.22])},
        steps={"h100": STEPS, "b200": faster},
    )
    ran = np.array([8])
    assert choose_card("llm", CARD, ["SXM"], ran)[0].speedup.tolist() == pytest.approx([1.0, 1.9, 3.61])
    # Relative to its own step on 8, not to that on an H100.
    assert choose_card("llm", two, ["b200"], ran)[0].speedup.tolist() == pytest.approx([1.0, 1.9, 3.61])
    message = "classes.llm.speedup: its card: is for h100, b200, and its jobs ran on SXM; compute it for that type"
    with pytest.raises(DataError, match=re.escape(message)):
        choose_card("llm", two, ["SXM"], ran)


def test_the_band_begins_where_most_jobs_ran() -> None:
    """What jobs take on 16 is known from the log: the band is nothing there, and widens both ways."""
    table, base = choose_card("llm", CARD, ["h100"], np.array([8, 16, 16, 12, 12, 12]))
    assert base == 16
    assert table.speedup.tolist() == pytest.approx([1 / 1.9, 1.0, 1.9])
    assert table.error is not None
    assert table.error[1] == 0.0
    assert table.error[0] == table.error[2] > 0.0
    assert choose_card("llm", CARD, ["h100"], np.array([12]))[1] == 8


def test_a_card_goes_before_assumptions_and_fits_and_after_what_was_measured() -> None:
    """The card's curve with its band is the class's; a measured table stays, and is compared with the card."""
    agreeing = _runs((16, 4.0 / 1.9), (16, 4.0 / 1.9), (8, 4.0))
    sources = SpeedupSources(Measured({}), {"llm": "linear"}, cards={"llm": CARD})
    found = sources.find("llm", agreeing)
    assert found.curve.at(TABLE.gpus)[0].tolist() == pytest.approx([1 / 1.9, 1.0, 1.9])
    assert (found.reference_width, found.warning) == (16, "")
    assert found.words.startswith("from a model card: llama, 8 billion parameters, 32 layers")
    assert "h100, 8 in a node, 400 Gbit/s for each" in found.words
    contradicting = _runs((8, 3.9), (16, 3.0))
    warned = sources.find("llm", contradicting)
    said = r"on 8 and 16 GPUs say 1.3, the card 1.9 \([\d.]+ to [\d.]+\)"
    wider = r"The card is taken, its band [\d.]+ times as wide; leave it out to fit the runs"
    assert re.fullmatch(f"completed runs {said}; are jobs on more GPUs larger ones. {wider}", warned.warning)
    low, high = warned.curve.band_at(np.array([16]), warned.reference_width)
    assert low[0][0] == pytest.approx(1.3, rel=1e-3)  # what the runs say, at the end of the band
    assert high[0][0] == pytest.approx(1.9**2 / 1.3, rel=1e-3)
    measured = SpeedupSources(Measured({"llm": ([8, 16], [100.0, 130.0])}), {}, cards={"llm": CARD})
    found = measured.find("llm", agreeing)
    assert found.curve.at(TABLE.gpus[:2])[0].tolist() == pytest.approx([1.0, 1.3])
    advice = "the measurements are taken: do them again, or leave them out to take the card"
    assert re.fullmatch(f"measurements {said}; {advice}", found.warning)


def test_the_hash_of_a_table_with_errors_depends_on_them() -> None:
    """Two tables that differ in their bands only are two."""
    assert (
        len({TABLE.content_hash(), TABLE.replace(error=0.1).content_hash(), TABLE.replace(error=None).content_hash()})
        == 3
    )
