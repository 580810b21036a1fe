"""What a search's answer says its training profile rests on."""

from __future__ import annotations

from typing import Any

import pytest

import optplan
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.solving import solve
from optplan.verification import verify

TABLE = {"form": "measured", "gpus": [1, 2, 4], "seconds": [10.0, 6.0, 4.0]}
LAW: dict[str, Any] = {"form": "scaled", "base_s": 10.0, "speedup": {"form": "power", "exponent": 0.7}}


@pytest.mark.parametrize(
    ("seconds", "kind"),
    [
        (TABLE, "not said"),
        (TABLE | {"evidence": "measured"}, "measured"),
        (TABLE | {"evidence": "assumed"}, "assumed"),
        (LAW, "not said"),
        (LAW | {"speedup": LAW["speedup"] | {"evidence": "fitted"}}, "fitted"),
        (LAW | {"speedup": {"form": "table", "gpus": [1, 2], "speedup": [1, 2], "provenance": ["measured", "guess"]}},
         "not said"),
    ],
)  # fmt: skip
def test_all_gpus_rest_on_the_one_profile(seconds: dict[str, object], kind: str) -> None:
    """The form's name proves nothing; the field does, and of a table the word that says least."""
    instance = optplan.read_instance("rubberband-two-stages", RubberBandInstance)
    instance = instance.replace(training=instance.training.replace(seconds_per_iteration=seconds, most_gpus=2))
    result = solve(instance)
    assert result.evidence == {kind: 1.0}
    assert verify(instance, result).ok
    forged = result.model_copy(update={"evidence": {"measured": 1.0} if kind != "measured" else {"fitted": 1.0}})
    assert {check.family for check in verify(instance, forged).failures} == {"evidence"}
