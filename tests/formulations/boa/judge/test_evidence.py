"""What the speedups behind an answer rest on: computed, said in the first words, and judged."""

from __future__ import annotations

from typing import Any

import pytest

import optplan
from optplan.contracts import Result, Solution
from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.sections import add_evidence, name_status
from optplan.solving import solve
from optplan.verification import verify

TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.9, 3.6]}


def law(evidence: str | None) -> dict[str, Any]:
    """Return a linear speedup that comes from somewhere."""
    return {"form": "amdahl", "serial_fraction": 0.0} | ({} if evidence is None else {"evidence": evidence})


def build(first: dict[str, Any], second: dict[str, Any], **changes: Any) -> BoaInstance:  # noqa: ANN401 - its fields
    """Return two classes of loads 3 and 1 on one type: linear, so that GPUs used are these at any widths."""
    classes = {
        name: {"arrival_rate_per_hour": rate, "epoch_size_gpu_hours": [1.0], "speedup": {"v100": speedup}}
        for name, rate, speedup in (("first", 3.0, first), ("second", 1.0, second))
    }
    fields: dict[str, Any] = {"classes": classes, "gpu_types": {"v100": {}}, "widths": {"only": [1, 2, 4]}}
    return BoaInstance.parse({"formulation": "boa", "budget": "16gpu"} | fields | changes)


def alter(result: Result[Solution], evidence: dict[str, float]) -> Result[Solution]:
    """Return the result with another claim."""
    return result.model_copy(update={"evidence": evidence})


def test_the_answer_says_which_share_of_its_gpus_rests_on_assumed_speedups() -> None:
    """Loads of 3 and 1 with linear speedups: 75 % of the GPUs assumed, 25 % measured, in words, badge and JSON."""
    instance = build(law("assumed"), law("measured"))
    result = solve(instance)
    assert result.evidence == {"assumed": pytest.approx(0.75), "measured": pytest.approx(0.25)}
    assert result.to_json_data()["evidence"] == {"assumed": pytest.approx(0.75), "measured": pytest.approx(0.25)}
    assert name_status(result) == ("proven optimal; 75 % of its GPUs on assumed speedups", "fair")
    assert add_evidence("Good.", result) == (
        "Good. Speedups behind its GPUs: 75 % assumed, 25 % measured. What is proven is proven for these, and not for "
        "what the jobs will really do."
    )
    assert "Speedups behind its GPUs: 75 % assumed, 25 % measured." in " ".join(str(result).split())
    assert verify(instance, result).ok


def test_a_claim_about_evidence_is_judged() -> None:
    """Less assumed than there is, nothing said of it, or another word: refused, each by name."""
    instance = build(law("assumed"), law("fitted"))
    result = solve(instance)
    for forged in ({"fitted": 1.0}, {}, {"assumed": 0.75, "measured": 0.25}):
        failures = verify(instance, alter(result, forged)).failures
        assert {check.family for check in failures} == {"evidence"}
    old = build(law(None), law(None))
    silent = alter(solve(old), {})  # as results of earlier versions
    assert verify(old, silent).ok


def test_what_was_written_before_says_nothing() -> None:
    """Without the field the hash is what it was, and the answer says that nobody says it."""
    instance = build(law(None), TABLE)
    assert "evidence" not in str(instance.to_json_data())
    result = solve(instance)
    assert result.evidence == {"not said": 1.0}
    assert name_status(result) == ("proven optimal", "good")
    assert add_evidence("", result) == " Speedups behind its GPUs: where they come from is not said."
    library = optplan.read_instance("boa-two-classes")
    assert library.content_hash().startswith("df6440de0fc3")


def test_of_a_table_the_words_of_the_widths_count() -> None:
    """All jobs on 4 GPUs: what is said of that width; but a guess at any width that the plan weighed counts for all."""
    words = {"provenance": ["measured", "measured-scalability", "interpolated"]}
    fitted = solve(build(TABLE | words, law("measured")))
    assert set(fitted.evidence) == {"fitted", "measured"}
    assert add_evidence("", fitted).endswith("measured.")
    guessed = solve(build(TABLE | {"provenance": ["measured", "assumed", "measured"]}, law("measured")))
    # 4 GPUs for 1/3.6 h three times an hour, and 4 for 1/4 h once: 3.33 and 1.
    assert guessed.evidence == {
        "assumed": pytest.approx(3.3333333 / 4.3333333),
        "measured": pytest.approx(1 / 4.3333333),
    }


def test_what_follows_from_a_model_card_is_no_run_either() -> None:
    """Loads of 3 and 1: 75 % of the GPUs on cards, said in words and on the badge as assumptions are."""
    instance = build(law("card"), law("measured"))
    result = solve(instance)
    assert result.evidence == {"card": pytest.approx(0.75), "measured": pytest.approx(0.25)}
    assert name_status(result) == ("proven optimal; 75 % of its GPUs on model cards", "fair")
    assert add_evidence("", result).startswith(
        " Speedups behind its GPUs: 75 % from model cards, 25 % measured. What is"
    )
    assert "Speedups behind its GPUs: 75 % from model cards, 25 % measured." in " ".join(str(result).split())
    assert verify(instance, result).ok
    assert not verify(instance, alter(result, {})).ok
    both = solve(build(law("card"), law("assumed")))
    assert name_status(both)[0].endswith("; 25 % of its GPUs on assumed speedups and 75 % of its GPUs on model cards")
    assert add_evidence("", solve(build(law("card"), law("card")))).startswith(
        " Speedups behind its GPUs: all from model"
    )


def test_without_a_plan_the_load_counts() -> None:
    """A budget of 3 for a load of 4: proven infeasible, of which 25 % rests on a guess."""
    instance = build(law("measured"), law("assumed"), budget="3gpu")
    result = solve(instance)
    assert result.evidence == {"assumed": 0.25, "measured": 0.75}
    assert name_status(result)[0] == "infeasible: proven; 25 % of the load on assumed speedups"
    assert "Speedups behind the load: 25 % assumed, 75 % measured." in add_evidence("", result)
    assert verify(instance, result).ok


def test_words_that_are_no_evidence_are_refused() -> None:
    """Naming the field and what is allowed."""
    with pytest.raises(DataError, match=r"speedup\.v100.*evidence: .*'guessed'.*measured"):
        build(law("guessed"), TABLE)
