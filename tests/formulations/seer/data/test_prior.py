"""Priors: learning curves by hand, distribution and convergence functions, draws, and wrong data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.formulations.seer.data.instance import Objective, SeerInstance
from optplan.formulations.seer.data.prior import ParametricPrior, TablePrior, TrialScaling

MakeInstance = Callable[..., SeerInstance]

SCALING: dict[str, Any] = {"gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]}
PARAMETRIC: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.1,
    "terminal_high_loss": 0.5,
    "terminal_shape": 2.0,
    "rate_low_per_min": 0.1,
    "rate_high_per_min": 1.0,
    "scaling": SCALING,
}
TABLE: dict[str, Any] = {
    "form": "table",
    "start_loss": 1.0,
    "accuracies": [[0.5, 0.6, 0.9], [0.3, 0.7, 0.7]],
    "epochs": [1, 2, 6],
    "epoch_min": 0.5,
    "scaling": SCALING,
}


def parametric(**fields: object) -> ParametricPrior:
    """Return the parametric prior above with some fields changed."""
    return ParametricPrior.parse(PARAMETRIC | fields)


def table(**fields: object) -> TablePrior:
    """Return the table prior above with some fields changed."""
    return TablePrior.parse({key: value for key, value in (TABLE | fields).items() if value is not None})


def test_scaling_is_linear_between_its_figures_and_flat_after_them() -> None:
    """Half way from 2 to 4 GPUs is half way from 1.8 to 3."""
    scaling = TrialScaling.parse(SCALING)
    assert [scaling.of(gpus) for gpus in (1, 2, 3, 4, 64)] == pytest.approx([1.0, 1.8, 2.4, 3.0, 3.0])


def test_an_exponential_curve_by_hand() -> None:
    """From 1 to 0.2 at a rate of 0.5 after 2 minutes: 0.2 + 0.8/e; a power curve of exponent 2: 0.2 + 0.8/4."""
    who = (np.array([[0.2]]), np.array([[0.5]]))
    exponential, power = parametric(), parametric(curve="power", exponent=2.0)
    assert exponential.losses_after(who, np.array([[2.0]])).item() == pytest.approx(0.2 + 0.8 / math.e)
    assert power.losses_after(who, np.array([[2.0]])).item() == pytest.approx(0.4)


def test_the_distribution_of_terminal_losses_by_hand() -> None:
    """F(y) = ((y - 0.1)/0.4)^2: none at 0.1, a quarter at 0.3, all at 0.5."""
    prior = parametric()
    ends, rates = prior.draw_trials(np.random.default_rng(0), 20, 5000)
    assert ends.shape == rates.shape == (5000, 20)
    assert (ends <= 0.3).mean() == pytest.approx(0.25, abs=0.01)
    assert (rates <= math.sqrt(0.1)).mean() == pytest.approx(0.5, abs=0.01)  # log-uniform
    assert not prior.has_ties


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.4])
def test_ends_and_rates_have_the_rank_correlation_asked_for(correlation: float) -> None:
    """Spearman's: the correlation of the ranks, which are those of uniform numbers."""
    ends, rates = parametric(rank_correlation=correlation).draw_trials(np.random.default_rng(1), 1, 40_000)
    of_ends, of_rates = (values[:, 0].argsort().argsort() for values in (ends, rates))
    assert np.corrcoef(of_ends, of_rates)[0, 1] == pytest.approx(correlation, abs=0.02)


def test_a_table_by_hand() -> None:
    """Epochs 1, 2, 6 end after 0.5, 1 and 3 minutes; losses are 1 less the accuracies, linear between, then held.

    First row: 1, 0.5, 0.4, 0.1. After a quarter of a minute 0.75; after 2 minutes half way from 0.4 to 0.1.
    """
    prior = table()
    who = (np.array([[0.0, 1.0]]),)
    for minutes, losses in (
        (0.0, (1, 1)),
        (0.25, (0.75, 0.85)),
        (2.0, (0.25, 0.3)),
        (3.0, (0.1, 0.3)),
        (99, (0.1, 0.3)),
    ):
        assert prior.losses_after(who, np.full((1, 2), float(minutes)))[0] == pytest.approx(losses)
    assert prior.last_min == 3.0


def test_a_table_of_losses_is_taken_as_it_is_with_epochs_from_one_on() -> None:
    """Without epochs the columns are those after 1, 2, 3 epochs."""
    prior = table(accuracies=None, losses=[[0.8, 0.2, 0.3]], epochs=None)
    assert prior.losses_after((np.zeros((1, 1)),), np.array([[0.5]])).item() == pytest.approx(0.8)
    assert prior.losses_after((np.zeros((1, 1)),), np.array([[1.25]])).item() == pytest.approx(0.25)
    assert prior.last_min == 1.5


def test_tables_draw_every_row_alike() -> None:
    """Each configuration of a table is as likely as any other; with noise nothing ties."""
    rows = table().draw_trials(np.random.default_rng(3), 4, 5000)[0]
    assert set(np.unique(rows)) == {0.0, 1.0}
    assert rows.mean() == pytest.approx(0.5, abs=0.02)
    assert table().has_ties
    assert not table(ranking_noise_loss=0.01).has_ties


@settings(max_examples=20)
@given(few=st.integers(1, 6), more=st.integers(0, 6), correlation=st.sampled_from([0.0, 0.5, -1.0]))
def test_the_first_trials_do_not_depend_on_how_many_there_are(few: int, more: int, correlation: float) -> None:
    """What makes plans of different sizes comparable."""
    for prior in (parametric(rank_correlation=correlation), table()):
        short = prior.draw_trials(np.random.default_rng(4), few, 7)
        long = prior.draw_trials(np.random.default_rng(4), few + more, 7)
        for one, other in zip(short, long, strict=True):
            assert one.tolist() == other[:, :few].tolist()


def test_instances_with_priors_are_written_and_read_again(make_instance: MakeInstance) -> None:
    """Both forms survive their JSON, and the objective decides the unit and the sense."""
    for prior in (PARAMETRIC, TABLE):
        instance = make_instance(prior=prior, objective="quality")
        again = SeerInstance.parse(instance.to_json_data())
        assert again.content_hash() == instance.content_hash()
        assert (again.objective, again.objective_unit, again.sense.value) == (Objective.QUALITY, "loss", "minimise")
        spend = instance.replace(objective="spend")
        assert (spend.objective_unit, spend.sense.value) == ("GPU-min", "maximise")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prior": None}, r"^prior: is missing; the objective is quality; add it, or set objective to spend$"),
        ({"objective": "best"}, r"^objective: got 'best'; allowed: spend, quality$"),
        ({"least_gpus": 0.5, "whole_gpus": False}, r"^least_gpus: got 0.5; the prior tells of one GPU and more; raise"),
        (
            {"budget": "1e6gpu-min", "deadline_min": 10},
            r"^budget: got '1000000gpu-min', which makes .* trials as published; up to 5,000 can be sampled; raise",
        ),
        ({"prior": PARAMETRIC | {"form": "guess"}}, r"^prior.form: got 'guess'; allowed: parametric, table$"),
    ],
)
def test_wrong_instances_with_priors_are_refused(
    make_instance: MakeInstance, fields: dict[str, object], message: str
) -> None:
    """The message has the field's path, the value, what is allowed and what to do."""
    with pytest.raises(DataError, match=message):
        make_instance(**({"objective": "quality", "prior": PARAMETRIC} | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"terminal_low_loss": 0.5}, r"terminal_low_loss: got 0.5, not below terminal_high_loss \(0.5\); lower it$"),
        ({"start_loss": 1e308}, r"start_loss: got 1e\+308; numbers from 1e-20 to 1e\+20 are allowed; check the unit"),
        ({"start_loss": 0.4}, r"start_loss: got 0.4, less than terminal_high_loss \(0.5\); losses fall from it"),
        ({"rate_low_per_min": 2.0}, r"rate_low_per_min: got 2.0, more than rate_high_per_min \(1.0\); exchange"),
        ({"curve": "power"}, r"exponent: is missing, and the curve is power; add it, such as 1$"),
        ({"exponent": 2.0}, r"exponent: got 2.0, although the curve is exponential; remove it, or set curve to power$"),
        ({"rank_correlation": 1.5}, r"rank_correlation: got 1.5; input should be less than or equal to 1$"),
        ({"ranking_noise_loss": -1.0}, r"ranking_noise_loss: got -1.0; input should be greater than or equal to 0$"),
        ({"samples": 1}, r"samples: got 1; input should be greater than or equal to 10$"),
        ({"samples_seed": -1}, r"samples_seed: got -1; input should be greater than or equal to 0$"),
        (
            {"scaling": SCALING | {"gpus": [2, 4, 8]}},
            r"gpus: got \[2, 4, 8\]; list each number once, ascending from 1$",
        ),
        (
            {"scaling": SCALING | {"speedup": [1.0, 2.0]}},
            r"speedup: 2 values for 3 numbers of GPUs; give one for each$",
        ),
        ({"scaling": SCALING | {"speedup": [2.0, 3.0, 4.0]}}, r"speedup: got 2.0 for one GPU; 1 is needed; divide all"),
    ],
)
def test_wrong_parametric_priors_are_refused(fields: dict[str, object], message: str) -> None:
    """The message has the field's path, the value, what is allowed and what to do."""
    with pytest.raises(DataError, match=message):
        parametric(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"losses": [[0.1, 0.2, 0.3]]}, r"losses: and accuracies are both given; give one of the two$"),
        ({"accuracies": None}, r"losses: and accuracies are both missing; give one of the two$"),
        ({"accuracies": [0.5, 0.6, 0.9]}, r"accuracies: got an array of shape \(3,\); a row of figures for each"),
        (
            {"accuracies": [[0.5, 60.0, 0.9]]},
            r"accuracies: entry \[0\]\[1\]: got 60.0; shares from 0 to 1 are allowed;",
        ),
        (
            {"accuracies": None, "losses": [[0.5, -1e300, 0.4]]},
            r"losses: entry \[0\]\[1\]: got -1e\+300; numbers up to 1e\+20 are allowed; check the unit$",
        ),
        ({"epochs": [1, 2]}, r"epochs: got 2 numbers for 3 figures of each configuration; give one for each$"),
        ({"epochs": [1, 1, 2]}, r"epochs: got \[1.0, 1.0, 2.0\]; ascending numbers above zero are needed; before any"),
        ({"epoch_min": 0}, r"epoch_min: got 0; input should be greater than 0$"),
        ({"pace_spread": 0.5}, r"pace_spread: got 0.5; input should be greater than or equal to 1$"),
        ({"tasks": [1]}, r"tasks: got 1 numbers for 2 runs; give one for each$"),
    ],
)
def test_wrong_tables_are_refused(fields: dict[str, object], message: str) -> None:
    """The message has the field's path, the value, what is allowed and what to do."""
    with pytest.raises(DataError, match=message):
        table(**fields)


def test_trials_of_a_search_are_of_one_task() -> None:
    """Runs 0 and 2 are of task 7, run 1 of task 3: tasks take turns, the lower number first, and never mix."""
    curves = [[0.5, 0.6, 0.9], [0.3, 0.7, 0.7], [0.1, 0.2, 0.4]]
    prior = table(accuracies=curves, tasks=[7, 3, 7])
    rows = prior.draw_trials(np.random.default_rng(5), 200, 50)[0]
    assert prior.task_count == 2
    assert (rows[::2] == 1).all()
    assert {tuple(np.unique(each)) for each in rows[1::2]} == {(0, 2)}
    assert (rows[1::2] == 0).mean() == pytest.approx(0.5, abs=0.05)


def test_runs_of_one_task_are_drawn_as_without_its_number() -> None:
    """A number for all runs says nothing."""
    alone, told = table(), table(tasks=[4, 4])
    rows = [prior.draw_trials(np.random.default_rng(6), 9, 30)[0] for prior in (alone, told)]
    assert (rows[0] == rows[1]).all()
    assert (alone.task_count, told.task_count) == (1, 1)


def test_a_search_of_another_pace_passes_the_curves_faster_or_slower() -> None:
    """A minute at pace 2 shows what two minutes do; paces are log-uniform from 1/4 to 4, one for a search's trials."""
    prior = table(pace_spread=4.0)
    rows, paces = prior.draw_trials(np.random.default_rng(7), 3, 2000)
    assert (paces == paces[:, :1]).all()
    assert (paces.min(), paces.max()) == (pytest.approx(0.25, rel=0.01), pytest.approx(4.0, rel=0.01))
    assert np.median(paces) == pytest.approx(1.0, rel=0.01)
    minutes, twice = np.array([[1.5]]), np.full((1, 1), 2.0)
    who = np.zeros((1, 1))
    assert prior.losses_after((who, twice), minutes) == prior.losses_after((who,), 2.0 * minutes)
    assert (rows == table().draw_trials(np.random.default_rng(7), 3, 2000)[0]).all()
