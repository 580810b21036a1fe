"""The library's instances of SEER against the figures that the paper prints."""

from __future__ import annotations

import pytest

from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.data.search_space import count_configurations
from optplan.instances.library import build_named, names
from optplan.solving import solve


def named(name: str) -> SeerInstance:
    """Return an instance of the library."""
    instance = build_named(name)
    assert isinstance(instance, SeerInstance)
    return instance


def test_the_example_of_section_3_4() -> None:
    """R* = 5.714, K = 3, t_1 = 1.43 min, B0 = 17.14, q* = 2, P = [1, 2, 4], N = [8, 4, 0]: 68.57 in 10 minutes."""
    instance = named("seer-paper-example")
    found = instance.brackets
    assert found is not None
    assert found.ratio == pytest.approx(40 / 7)
    assert (found.rounds, found.levels, found.capped_levels) == (3, 2, None)
    assert found.round_min == pytest.approx(10 / 7)
    assert found.bracket_gpu_min == pytest.approx(120 / 7)
    assert [each.gpus for each in found.brackets] == [1.0, 2.0, 4.0]
    assert [each.budget_gpu_min for each in found.brackets] == pytest.approx([240 / 7, 240 / 7, 80 / 7])
    assert [each.trials[0] for each in found.brackets] == [8, 4, 0]
    published = solve(instance, solver="published-seer")
    assert published.objective == pytest.approx(480 / 7)
    assert published.measures["duration_min"] == pytest.approx(10.0)


def test_the_13_trials_of_section_6_5() -> None:
    """30 minutes, 8 x 30 GPU-minutes, t_min = 2: R* = 12, K = 2, t_1 = 6, P = [1, 2, 4], N = [8, 4, 1]: 216."""
    instance = named("seer-resnet18-30min-8gpu")
    found = instance.brackets
    assert found is not None
    assert found.rounds == 2
    assert [found.ratio, found.round_min] == pytest.approx([12.0, 6.0])
    assert [(each.gpus, each.trials[0]) for each in found.brackets] == [(1.0, 8), (2.0, 4), (4.0, 1)]
    published = solve(instance, solver="published-seer")
    assert published.measures["trials"] == 13
    assert published.objective == pytest.approx(216.0)
    default = solve(instance.replace(least_round_min=1.0), solver="published-seer")
    assert default.measures["trials"] == 36  # what the instance's source says of the default


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("seer-") and "example" not in name])
def test_the_budget_is_that_of_a_constant_cluster(name: str) -> None:
    """N x T GPU-minutes for a deadline of T; table 1 has 144 configurations, and BERT five embedding sizes besides."""
    instance = named(name)
    cluster = {"seer-vgg16-15min": 4, "seer-resnet18-30min-8gpu": 8, "seer-resnet18-30min-32gpu": 32}.get(name, 16)
    assert instance.budget_gpu_min == cluster * instance.deadline_min
    assert f"{instance.deadline_min:g}min" in name
    assert count_configurations(instance.search_space) == (720 if "bert" in name else 144)


def test_learning_rates_differ_by_task() -> None:
    """Multiplied by 3 for text, divided by 10 for segmentation (6.2)."""
    for name, factor in (("seer-bert-120min", 3.0), ("seer-fcn-180min", 0.1)):
        values = named(name).to_json_data()["search_space"]["learning_rate"]["values"]
        vision = named("seer-resnet18-60min").to_json_data()["search_space"]["learning_rate"]["values"]
        assert values == pytest.approx([factor * value for value in vision])
