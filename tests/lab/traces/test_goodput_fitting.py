import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.lab.traces.goodput_fitting import fit_goodput
from optplan.speedup.goodput import ThroughputParameters

NAMES = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")
Columns = tuple[list[int], list[int], list[int], list[float], list[float]]

#: Parameters that were published with the data (data README, section 1.6), as found by another optimiser.
PUBLISHED = {
    ("aws", "cifar10"): (0.0204, 0.000685, 0.0146, 0.00718, 0.0682, 0.000695, 1.28),
    ("aws", "bert"): (0.181, 0.0577, 0.947, 0.00789, 0.0891, 0.006, 1.0),
    ("aws", "deepspeech2"): (0.309, 0.0235, 0.497, 0.0102, 0.000693, 3.65e-06, 1.48),
    ("aws", "yolov3"): (0.197, 0.0258, 0.664, 0.0103, 0.0875, 0.00912, 1.0),
    ("aws", "imagenet"): (0.0676, 0.0044, 0.119, 0.00589, 0.0909, 0.0039, 1.03),
    ("dgx-ext", "cifar10"): (0.0247, 8.66e-05, 0.00248, 0.000458, 0.00303, 0.00059, 1.26),
    ("dgx-ext", "bert"): (0.0985, 0.0047, 0.0192, 0.00335, 0.0231, 0.00462, 1.38),
    ("dgx-ext", "imagenet"): (0.0945, 0.000858, 0.0859, 0.000517, 0.0857, 0.000857, 2.81),
}


def to_parameters(values: tuple[float, ...]) -> ThroughputParameters:
    """Return the record of seven numbers in their usual order."""
    return ThroughputParameters(**dict(zip(NAMES, values, strict=True)))


def measure(parameters: ThroughputParameters, shapes: list[tuple[int, int]], batches: list[int]) -> Columns:
    """Return exact measurements of the model at (nodes, gpus) shapes and local batches."""
    grid = [(n, k, b) for n, k in shapes for b in batches]
    nodes, gpus, local = (list(column) for column in zip(*grid, strict=True))
    step = parameters.iteration_time_s(np.array(nodes), np.array(gpus), np.array(local))
    sync = step - parameters.pass_time_s(np.array(local))
    # A difference of rounding size may come out below zero on one GPU.
    return nodes, gpus, local, step.tolist(), np.maximum(sync, 0.0).tolist()


def goodput_objective(
    p: ThroughputParameters, nodes: list[int], gpus: list[int], local: list[int], step: list[float], sync: list[float]
) -> float:
    """Return AdaptDL's objective: errors of logarithms, and what is against overlap and growth."""
    columns = np.array(nodes), np.array(gpus), np.array(local)
    step_error = np.log(p.iteration_time_s(*columns) / step)
    compute_error = np.log(p.pass_time_s(columns[2]) / (np.array(step) - sync))
    errors = np.sqrt(np.mean(step_error**2)) + np.sqrt(np.mean(compute_error**2))
    growth = (p.beta_n / p.alpha_n) ** 2 + (p.beta_r / p.alpha_r) ** 2
    return float(errors + 1e-3 * (p.gamma - 1) ** 2 + 1e-2 * growth)


TRUE = to_parameters((0.05, 0.002, 0.2, 0.01, 0.08, 0.004, 1.5))
SHAPES = [(1, 1), (1, 2), (1, 4), (2, 2), (2, 8), (4, 16)]
POINTS = measure(TRUE, SHAPES, [16, 32, 64, 128])


def test_exact_measurements_are_met_closely() -> None:
    """Without noise the fit is off only by what the regularising terms pull: below 1 %."""
    fit = fit_goodput(*POINTS)
    assert fit.max_relative_error < 0.01
    assert fit.rmse_log < 0.005
    assert fit.num_points == 24
    assert fit.unobserved == ()
    assert fit.message.endswith(f"iterations of L-BFGS-B on 24 points, objective {fit.objective:.6g}")
    predicted = fit.parameters.iteration_time_s(np.array([8]), np.array([32]), np.array([64]))
    exact = TRUE.iteration_time_s(np.array([8]), np.array([32]), np.array([64]))
    assert float(predicted[0] / exact[0]) == pytest.approx(1.0, abs=0.03)


def test_the_reported_errors_are_those_of_the_parameters() -> None:
    """RMSE, largest error and objective can be recomputed from the parameters."""
    fit = fit_goodput(*POINTS)
    nodes, gpus, local, step, _ = (np.array(column) for column in POINTS)
    ratio = fit.parameters.iteration_time_s(nodes, gpus, local) / step
    assert fit.rmse_log == pytest.approx(np.sqrt(np.mean(np.log(ratio) ** 2)), rel=1e-12)
    assert fit.max_relative_error == pytest.approx(np.abs(ratio - 1).max(), rel=1e-12)
    assert fit.objective == pytest.approx(goodput_objective(fit.parameters, *POINTS), rel=1e-9)


def test_the_objective_by_hand() -> None:
    """One GPU, b = 2, 3 s with 1 s synchronisation, against T_grad = 1 + 1 b = 3 s.

    Compute is off by log(3/2), the step not at all; (gamma - 1)^2 = 1 counts 0.001; (beta/alpha)^2 is 1/4 across nodes
    and 0 (to 1e-16) within, counting 0.01 each.
    """
    p = to_parameters((1.0, 1.0, 2.0, 1.0, 1.0, 1e-8, 2.0))
    expected = np.log(1.5) + 0.001 + 0.01 * 0.25
    assert goodput_objective(p, [1], [1], [2], [3.0], [1.0]) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_no_parameters_nearby_are_better(seed: int) -> None:
    """On noisy measurements no random change of the parameters lowers the objective: the gradient is right."""
    random = np.random.default_rng(seed)
    nodes, gpus, local, step, sync = POINTS
    noise = random.uniform(0.8, 1.25, len(step))
    noisy = (nodes, gpus, local, (np.array(step) * noise).tolist(), (np.array(sync) * noise).tolist())
    fit = fit_goodput(*noisy)
    found = np.array([getattr(fit.parameters, name) for name in NAMES])
    for _ in range(40):
        changed = found * np.exp(random.normal(0.0, 10.0 ** random.uniform(-4, 0), 7))
        changed = np.append(np.maximum(changed[:6], 1e-8), np.clip(changed[6], 1.0, 10.0))
        assert goodput_objective(to_parameters(tuple(changed)), *noisy) >= fit.objective * (1 - 1e-6)


def test_the_order_of_the_points_does_not_matter() -> None:
    """Shuffled measurements predict the same times."""
    order = np.random.default_rng(7).permutation(len(POINTS[0]))
    shuffled = [np.array(column)[order] for column in POINTS]
    here, there = fit_goodput(*POINTS), fit_goodput(*shuffled)
    nodes, gpus, local = (np.array(column) for column in POINTS[:3])
    predicted = [fit.parameters.iteration_time_s(nodes, gpus, local) for fit in (here, there)]
    assert predicted[0] == pytest.approx(predicted[1], rel=1e-3)
    assert here.objective == pytest.approx(there.objective, rel=1e-6)


def test_the_last_digits_of_the_measurements_do_not_matter() -> None:
    """Noisy step times that differ by 1e-13 give parameters that differ by less than 1e-10: no end of a search."""
    random = np.random.default_rng(7)
    nodes, gpus, local, step, sync = POINTS
    noise = random.uniform(0.8, 1.25, len(step))
    noisy = (np.array(step) * noise).tolist()
    moved = (np.array(noisy) * (1.0 + 1e-13 * random.standard_normal(len(step)))).tolist()
    lost = (np.array(sync) * noise).tolist()
    here, there = fit_goodput(nodes, gpus, local, noisy, lost), fit_goodput(nodes, gpus, local, moved, lost)
    for name in NAMES:
        assert getattr(there.parameters, name) == pytest.approx(getattr(here.parameters, name), rel=1e-10)


@pytest.mark.parametrize(
    ("shapes", "batches", "unobserved"),
    [
        ([(1, 1), (1, 2), (1, 4)], [16, 64], ("alpha_n", "beta_n")),
        ([(1, 1), (2, 2), (2, 8)], [16, 64], ("alpha_r", "beta_r")),
        ([(1, 1), (1, 2), (2, 2)], [16, 64], ("beta_n", "beta_r")),
        ([(1, 1)], [16, 64], ("alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")),
        (SHAPES, [32], ("alpha_c",)),
    ],
)
def test_parameters_without_measurements_are_named(
    shapes: list[tuple[int, int]], batches: list[int], unobserved: tuple[str, ...]
) -> None:
    """What no measurement bears on is said, while the measured shapes are met."""
    fit = fit_goodput(*measure(TRUE, shapes, batches))
    assert fit.unobserved == unobserved
    assert fit.message.endswith(f"; no measurement bears on {', '.join(unobserved)}")
    assert fit.max_relative_error < 0.02


def test_conventions_where_nothing_was_measured() -> None:
    """Across nodes takes a tenth longer than within; within takes as long as across; alone, next to nothing."""
    within = fit_goodput(*measure(TRUE, [(1, 1), (1, 2), (1, 4)], [16, 64])).parameters
    assert within.alpha_n == pytest.approx(1.1 * within.alpha_r, rel=1e-12)
    assert within.beta_n == pytest.approx(1.1 * within.beta_r, rel=1e-12)
    across = fit_goodput(*measure(TRUE, [(1, 1), (2, 2), (2, 8)], [16, 64])).parameters
    assert (across.alpha_r, across.beta_r) == (across.alpha_n, across.beta_n)
    alone = fit_goodput(*measure(TRUE, [(1, 1)], [16, 64])).parameters
    assert (alone.alpha_r, alone.beta_r, alone.gamma) == (1e-8, 1e-8, 1.0)


@pytest.mark.parametrize(("gpu", "application"), PUBLISHED)
def test_public_profiles_are_fitted_better_than_published(data_pack: Path, gpu: str, application: str) -> None:
    """Objective and error of step times are at or below those of the published parameters.

    The published ones end up to a factor of two above the optimum (aws cifar10: 0.330 against 0.165): the optimum is
    not that flat.
    """
    points = read_points(data_pack / "sia" / "traces" / application, gpu)
    published = to_parameters(PUBLISHED[gpu, application])
    fit = fit_goodput(*points)
    nodes, gpus, local, step, _ = (np.array(column) for column in points)
    error = np.log(published.iteration_time_s(nodes, gpus, local) / step)
    assert fit.objective <= goodput_objective(published, *points)
    assert fit.rmse_log <= float(np.sqrt(np.mean(error**2)))
    # The step times of both are similar: half of them within 11 %.
    ours = np.log(fit.parameters.iteration_time_s(nodes, gpus, local) / step)
    assert float(np.median(np.abs(ours - error))) < 0.11


def read_points(folder: Path, gpu: str) -> Columns:
    """Return the rows of the placements, and those of the scalability that are new."""
    points = []
    with (folder / f"placements-{gpu}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = (len(row["placement"]), sum(map(int, row["placement"])), int(row["local_bsz"]))
            points.append((*shape, float(row["step_time"]), float(row["sync_time"])))
    known = {point[:3] for point in points}
    with (folder / f"scalability-{gpu}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = (int(row["num_nodes"]), int(row["num_replicas"]), int(row["local_bsz"]))
            if shape not in known:
                points.append((*shape, float(row["step_time"]), float(row["sync_time"])))
    nodes, gpus, local, step, sync = zip(*points, strict=True)
    return list(nodes), list(gpus), list(local), list(step), list(sync)


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, [0], r"num_nodes\[0\]: got 0.0; whole numbers of at least 1 are allowed; correct"),
        (1, [2.5], r"gpus\[0\]: got 2.5; whole numbers of at least one GPU per node are allowed"),
        (1, [1], r"gpus\[0\]: got 1.0; whole numbers of at least one GPU per node are allowed"),
        (2, [0], r"local_batch_sizes\[0\]: got 0.0; samples per GPU above zero are allowed"),
        (3, [0.0], r"step_time_s\[0\]: got 0.0; seconds above zero are allowed"),
        (3, [float("inf")], r"step_time_s\[0\]: got inf; finite numbers are allowed"),
        (4, [1.0], r"sync_time_s\[0\]: got 1.0; seconds from zero to below the step time are allowed"),
        (4, [0.1, 0.2], "sync_time_s: 2 values for 1 step times; one per point is needed; give all columns"),
        (3, [[1.0]], r"step_time_s: got an array of shape \(1, 1\); a list is needed"),
        (3, ["x"], r"step_time_s: got \['x'\]; a list of numbers is needed"),
        (3, [], "step_time_s: there is no measurement; give at least one point"),
    ],
)
def test_bad_measurements_are_refused(position: int, value: list[float], message: str) -> None:
    """The message names the column, the entry, its value and what is allowed."""
    columns: list[list[float]] = [[2], [2], [8], [1.0], [0.1]]
    columns[position] = value
    with pytest.raises(DataError, match=f"^{message}"):
        fit_goodput(*columns)  # type: ignore[arg-type]
