"""The sampled objective: hand figures, an explicit run of Algorithm 1 for every sample, common random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import Bracket, SeerInstance, SeerSolution
from optplan.formulations.seer.data.prior import ParametricPrior, TablePrior
from optplan.formulations.seer.judge.evaluation import evaluate, judge_quality
from optplan.formulations.seer.laws.expectation import (
    BLOCK,
    ChoiceSamples,
    Kind,
    Search,
    estimate_mean,
    require_prior,
    sample_report,
)
from optplan.formulations.seer.published.policy import SeerPolicy

MakeInstance = Callable[..., SeerInstance]

#: Ends uniform on [0, 1], and at once: after a minute of training nothing is left of the start.
AT_ONCE: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.0,
    "terminal_high_loss": 1.0,
    "rate_low_per_min": 1e4,
    "rate_high_per_min": 1e4,
    "scaling": {"gpus": [1], "speedup": [1.0]},
}
#: Four runs that cross one another, two of which tie at the end; loss, not accuracy.
CROSSING: dict[str, Any] = {
    "form": "table",
    "start_loss": 1.0,
    "losses": [[0.5, 0.45, 0.4, 0.4], [0.9, 0.5, 0.2, 0.1], [0.6, 0.6, 0.6, 0.1], [0.5, 0.45, 0.44, 0.43]],
    "epochs": [1, 2, 4, 9],
    "scaling": {"gpus": [1, 2, 4], "speedup": [1.0, 1.8, 3.0]},
    "samples": 400,
    "choice_samples": 100,
}
#: Three rounds, and brackets of which the widest has nobody in the last one.
THREE_ROUNDS = SeerSolution(
    round_min=1.25,
    rounds=3,
    brackets=(
        Bracket(gpus=1.0, trials=(6, 3, 1)),
        Bracket(gpus=2.0, trials=(4, 2, 1)),
        Bracket(gpus=4.0, trials=(2, 1, 0)),
    ),
)


def quality(make_instance: MakeInstance, prior: dict[str, Any], **fields: object) -> SeerInstance:
    """Return the paper's example with a prior and the least loss as objective."""
    return make_instance(objective="quality", prior=prior, **fields)


def one_round(trials: int, round_min: float = 1.0) -> SeerSolution:
    """Return a single round on one GPU each."""
    return SeerSolution(round_min=round_min, rounds=1, brackets=(Bracket(gpus=1.0, trials=(trials,)),))


def stream(seed: int, kind: Kind, block: int, what: int) -> np.random.Generator:
    """Return the stream of random numbers of a block: of its trials (0), or of the noise of round ``what`` from 1."""
    name = np.random.SeedSequence(seed, spawn_key=(int(kind), block, what))
    return np.random.Generator(np.random.PCG64(name))


def run_by_hand(instance: SeerInstance, solution: SeerSolution) -> list[float]:
    """Run Algorithm 1 as a policy in every sample of the report, with the same trials and the same noise."""
    prior = require_prior(instance)
    trials = sum(bracket.trials[0] for bracket in solution.brackets)
    found = []
    for block, start in enumerate(range(0, prior.samples, BLOCK)):
        size = min(BLOCK, prior.samples - start)
        drawn = prior.draw_trials(stream(prior.samples_seed, Kind.REPORT, block, 0), trials, size)
        noise = [
            stream(prior.samples_seed, Kind.REPORT, block, 1 + k).standard_normal((trials, size))
            for k in range(solution.rounds)
        ]
        for sample in range(size):
            policy = SeerPolicy(instance, solution, range(trials))
            passed, true, k = dict.fromkeys(range(trials), 0.0), {}, 0
            while (stage := policy.next_stage()) is not None:
                seen: dict[int, float | None] = {}
                for place, request in enumerate(stage.requests):
                    trial = request.trial
                    passed[trial] += request.training_min * prior.scaling.of(request.gpus)
                    who = [each[sample : sample + 1, trial] for each in drawn]
                    true[trial] = prior.losses_after(who, np.array([passed[trial]])).item()
                    seen[trial] = true[trial] + prior.ranking_noise_loss * noise[k][place, sample]
                policy.report(seen)
                k += 1
            found.append(true[policy.best])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.07])
@pytest.mark.parametrize("form", ["parametric", "table"])
def test_every_sample_is_a_run_of_algorithm_1(make_instance: MakeInstance, form: str, noise: float) -> None:
    """The vectorised search returns what the policy returns, sample by sample: crossing curves, ties and noise, too."""
    crossing = CROSSING | {"samples_seed": 5}
    slow = AT_ONCE | {
        "rate_low_per_min": 0.05,
        "rate_high_per_min": 2.0,
        "rank_correlation": 0.6,
        "scaling": CROSSING["scaling"],
        "samples": 300,
    }
    prior = (slow if form == "parametric" else crossing) | {"ranking_noise_loss": noise}
    instance = quality(make_instance, prior)
    found = sample_report(require_prior(instance), [Search.of(instance, THREE_ROUNDS)])[0]
    assert found == pytest.approx(run_by_hand(instance, THREE_ROUNDS), rel=1e-12)


def test_one_round_of_n_trials_finds_the_least_of_n(make_instance: MakeInstance) -> None:
    """The least of n uniform terminal losses has mean 1/(n+1) and variance n/((n+1)^2 (n+2)).

    n = 3: 0.25, and 3/(16 * 5) = 0.0375, so a standard error of 0.0019 over 10,000 samples.
    """
    instance = quality(make_instance, AT_ONCE)
    for trials, mean in ((1, 0.5), (3, 0.25), (9, 0.1)):
        found, measures = judge_quality(instance, one_round(trials))
        error = math.sqrt(trials / ((trials + 1) ** 2 * (trials + 2) * 10_000))
        assert found == pytest.approx(mean, abs=4 * error)
        assert measures["high_loss"] - measures["low_loss"] == pytest.approx(2 * 1.96 * error, rel=0.05)
        assert measures["samples"] == 10_000


def test_training_counts_by_speedup_times_minutes(make_instance: MakeInstance) -> None:
    """One curve, d(z) = exp(-z) at rate 0.1: 2 min on 4 GPUs of speedup 3 are 6 min, so 1 - (1 - e^-0.6) (1 - end).

    Terminal losses within 1e-9 of 0.2 make the answer one number: 0.2 + 0.8 exp(-0.6).
    """
    prior = AT_ONCE | {
        "terminal_low_loss": 0.2,
        "terminal_high_loss": 0.2 + 1e-9,
        "rate_low_per_min": 0.1,
        "rate_high_per_min": 0.1,
        "scaling": CROSSING["scaling"],
    }
    instance = quality(make_instance, prior)
    solution = SeerSolution(round_min=2.0, rounds=1, brackets=(Bracket(gpus=4.0, trials=(1,)),))
    assert judge_quality(instance, solution)[0] == pytest.approx(0.2 + 0.8 * math.exp(-0.6), rel=1e-7)
    # A second round of 4 min on the same GPUs: 6 min of training, 18 on one GPU. The pause trains nothing.
    longer = SeerSolution(round_min=2.0, rounds=2, brackets=(Bracket(gpus=4.0, trials=(1, 1)),))
    paused = instance.replace(resize_s=60.0)
    assert judge_quality(paused, longer)[0] == pytest.approx(0.2 + 0.8 * math.exp(-1.8), rel=1e-7)


def test_noise_makes_the_choice_blind_and_not_the_figure(make_instance: MakeInstance) -> None:
    """With noise that drowns the losses the last ranking picks anybody: the mean of all, 1/2, and not the least."""
    instance = quality(make_instance, AT_ONCE | {"ranking_noise_loss": 1e6})
    assert judge_quality(instance, one_round(9))[0] == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / 10_000))


def test_equal_losses_keep_the_trial_drawn_first(make_instance: MakeInstance) -> None:
    """All look alike after one epoch, so those drawn first go on; whoever is drawn first is any of the two rows.

    The rows end at 0 and at 1, and only one trial goes on: the mean is 1/2, and not that of a lucky choice of two.
    """
    prior = CROSSING | {"losses": [[0.5, 0.0], [0.5, 1.0]], "epochs": [1, 2], "samples": 4000}
    instance = quality(make_instance, prior)
    two = SeerSolution(round_min=1.0, rounds=2, brackets=(Bracket(gpus=1.0, trials=(2, 1)),))
    figures = sample_report(require_prior(instance), [Search.of(instance, two)])[0]
    drawn = np.concatenate(
        [require_prior(instance).draw_trials(stream(0, Kind.REPORT, block, 0), 2, BLOCK)[0][:, 0] for block in range(4)]
    )
    assert figures.tolist() == drawn.tolist()


def test_all_plans_meet_the_same_trials(make_instance: MakeInstance) -> None:
    """More trials are the same ones and others: no sample gets worse, and a plan is as good as itself."""
    instance = quality(make_instance, AT_ONCE)
    searches = [Search.of(instance, one_round(trials)) for trials in (5, 2, 9, 5)]
    five, two, nine, again = sample_report(require_prior(instance), searches)
    assert (five <= two).all()
    assert (nine <= five).all()
    assert five.tolist() == again.tolist()
    alone = sample_report(require_prior(instance), searches[:1])[0]
    assert alone.tolist() == five.tolist()


def test_choice_samples_are_others_and_do_not_depend_on_the_order_of_questions(make_instance: MakeInstance) -> None:
    """Chosen on one kind of samples, judged on another; the first ones of many are those of few."""
    instance = quality(make_instance, AT_ONCE | {"choice_samples": 2500, "ranking_noise_loss": 0.1})
    prior = require_prior(instance)
    few, many = (Search.of(instance, one_round(trials)) for trials in (2, 40))
    samples = ChoiceSamples(prior)
    assert samples.size == 2500
    first = samples.losses_of(few, 100)
    whole = samples.losses_of(many, 2500)
    other = ChoiceSamples(prior)
    assert other.losses_of(many, 2500).tolist() == whole.tolist()
    assert other.losses_of(few, 2500)[:100].tolist() == first.tolist()
    assert whole.shape == (2500,)
    assert first.tolist() != sample_report(prior, [few])[0][:100].tolist()


def test_the_seed_belongs_to_the_instance(make_instance: MakeInstance) -> None:
    """The same samples_seed gives the same figure to the last bit; another one another figure and another hash."""
    one, same, other = (quality(make_instance, AT_ONCE | {"samples_seed": seed}) for seed in (3, 3, 4))
    assert evaluate(one, one_round(4)).objective == evaluate(same, one_round(4)).objective
    assert evaluate(one, one_round(4)).objective != evaluate(other, one_round(4)).objective
    assert one.content_hash() != other.content_hash()


def test_the_gain_is_paired_with_the_published_search(make_instance: MakeInstance) -> None:
    """The measures are the means over the report's samples, and the published plan gains nothing over itself."""
    instance = quality(make_instance, AT_ONCE)
    assert instance.published is not None
    searches = [Search.of(instance, each) for each in (instance.published, one_round(30))]
    theirs, ours = sample_report(require_prior(instance), searches)
    found, measures = judge_quality(instance, one_round(30))
    assert found == ours.mean()
    assert measures["uninformed_loss"] == theirs.mean()
    assert measures["gain_loss"] == pytest.approx((theirs - ours).mean(), rel=1e-12)
    half = 1.96 * (theirs - ours).std(ddof=1) / 100
    assert measures["gain_low_loss"] == pytest.approx((theirs - ours).mean() - half, rel=1e-3)
    assert measures["gain_high_loss"] == pytest.approx((theirs - ours).mean() + half, rel=1e-3)


def test_where_no_published_search_fits_there_is_nothing_to_compare_with(make_instance: MakeInstance) -> None:
    """A plan that breaks the limits of an infeasible instance is judged, and only by its own loss."""
    instance = quality(make_instance, AT_ONCE, deadline_min=0.5)
    found, measures = judge_quality(instance, one_round(1))
    assert instance.published is None
    assert set(measures) == {"low_loss", "high_loss", "samples"}
    assert found == pytest.approx(0.5, abs=0.02)


def test_a_mean_has_its_normal_interval() -> None:
    """Figures 0 and 1, a hundred of each: mean 1/2, deviation sqrt(50/199), half of the interval 1.96 of it by 14.14.

    0.5012547 * 1.959964 / 14.142136 = 0.069469.
    """
    found = estimate_mean(np.array([0.0, 1.0] * 100))
    assert found.mean == 0.5
    assert found.high - found.mean == pytest.approx(0.069469, abs=1e-6)
    assert found.mean - found.low == pytest.approx(0.069469, abs=1e-6)


def test_without_a_prior_there_is_nothing_to_sample(example: SeerInstance) -> None:
    """The message names the field."""
    with pytest.raises(UsageError, match=r"has no prior over learning curves; add the field prior$"):
        require_prior(example)


def test_priors_are_of_their_form(make_instance: MakeInstance) -> None:
    """The field ``form`` says which."""
    assert isinstance(require_prior(quality(make_instance, AT_ONCE)), ParametricPrior)
    assert isinstance(require_prior(quality(make_instance, CROSSING)), TablePrior)
