import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from optplan.errors import DataError
from optplan.schema import FloatArray
from optplan.speedup import Speedup, SpeedupCurve
from optplan.speedup import goodput as goodput_module
from optplan.speedup.goodput import (
    NUM_CANDIDATES,
    BatchRule,
    GoodputSpeedup,
    GradientTable,
    ThroughputParameters,
    best_goodput,
    statistical_gain,
)

#: T_grad = 0.1 b; T_sync = 0.3 + 0.1 (k - 2) within a node of 4, 0.6 + 0.2 (k - 2) across; no overlap.
PARAMETERS = ThroughputParameters(alpha_c=0.0, beta_c=0.1, alpha_n=0.6, beta_n=0.2, alpha_r=0.3, beta_r=0.1, gamma=1.0)
CURVE = GoodputSpeedup(
    parameters=PARAMETERS,
    gpus_per_node=4,
    init_batch_size=8,
    max_batch_size=64,
    min_local_batch_size=4,
    max_local_batch_size=8,
    noise_scale_samples=np.array(0.0),
)

times = st.floats(1e-4, 10.0)


@st.composite
def curves(draw: st.DrawFn) -> GoodputSpeedup:
    """Goodput curves with statistics by batch size and epoch."""
    init = draw(st.integers(1, 64))
    largest = init * draw(st.integers(1, 32))
    least_local = draw(st.integers(1, min(init, 8)))
    sizes = sorted({init, (init + largest) // 2, largest})
    shape = (draw(st.integers(1, 3)), len(sizes))
    entries = st.lists(st.floats(0.0, 1e6), min_size=math.prod(shape), max_size=math.prod(shape))
    return GoodputSpeedup(
        parameters=ThroughputParameters(
            alpha_c=draw(times),
            beta_c=draw(times),
            alpha_n=draw(times),
            beta_n=draw(times),
            alpha_r=draw(times),
            beta_r=draw(times),
            gamma=draw(st.floats(1.0, 10.0)),
        ),
        gpus_per_node=draw(st.integers(1, 8)),
        init_batch_size=init,
        max_batch_size=largest,
        min_local_batch_size=least_local,
        max_local_batch_size=init + draw(st.integers(0, 64)),
        gradients=GradientTable(
            batch_sizes=np.array(sizes),
            grad_sqr=np.reshape(draw(entries), shape),
            grad_var=np.reshape(draw(entries), shape),
        ),
    )


def goodput_by_definition(curve: GoodputSpeedup, k: int, epoch: int) -> float:
    """Return the largest gain per second over the candidates, one at a time."""
    p, table = curve.parameters, curve.gradients
    assert table is not None
    m0, largest = curve.init_batch_size, curve.max_batch_size
    sync = 0.0
    if k > 1:
        alpha, beta = (p.alpha_r, p.beta_r) if k <= curve.gpus_per_node else (p.alpha_n, p.beta_n)
        sync = alpha + beta * max(k - 2, 0)
    best = 0.0
    for wanted in np.geomspace(max(m0, curve.min_local_batch_size * k), largest, NUM_CANDIDATES):
        share = wanted / k
        a = max(0, math.ceil(share / curve.max_local_batch_size - 1e-8) - 1)
        if k == 1 and share > m0 + 1e-8:
            a = max(a, 1)
        b = min(math.ceil(share / (a + 1) - 1e-8), largest // (k * (a + 1)))
        batch = k * b * (a + 1)
        if not (curve.min_local_batch_size <= b <= curve.max_local_batch_size and batch >= m0):
            continue
        compute = p.alpha_c + p.beta_c * b
        seconds = a * compute + (compute**p.gamma + sync**p.gamma) ** (1 / p.gamma)
        q = float(np.interp(batch, table.batch_sizes, np.atleast_2d(table.grad_sqr)[epoch]))
        v = float(np.interp(batch, table.batch_sizes, np.atleast_2d(table.grad_var)[epoch]))
        beneath = v / (batch / m0) + q
        best = max(best, ((v + q) / beneath if beneath > 0 else 1.0) / seconds)
    return best


@given(curves(), st.integers(1, 40))
def test_goodput_is_that_of_the_definition(curve: GoodputSpeedup, k: int) -> None:
    """Arrays over epochs, candidates and widths give what the rules give one by one; no batch is an error."""
    epochs = curve.num_epochs
    assert epochs is not None
    expected = [goodput_by_definition(curve, k, epoch) for epoch in range(epochs)]
    if min(expected) == 0.0:
        with pytest.raises(DataError, match=rf"^widths: no batch size is feasible on {k} GPUs"):
            curve.goodput(np.array([k]))
        return
    assert curve.goodput(np.array([k]))[:, 0] == pytest.approx(expected, rel=1e-9)


@given(curves(), st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(curve: GoodputSpeedup, factor: float) -> None:
    """With all times multiplied the goodput is divided, and the speedup stays; on one GPU it is exactly 1."""
    widths = np.array([1, 1 + curve.max_batch_size // curve.min_local_batch_size // 2])
    p = curve.parameters
    scaled = curve.replace(
        parameters=ThroughputParameters(
            alpha_c=factor * p.alpha_c,
            beta_c=factor * p.beta_c,
            alpha_n=factor * p.alpha_n,
            beta_n=factor * p.beta_n,
            alpha_r=factor * p.alpha_r,
            beta_r=factor * p.beta_r,
            gamma=p.gamma,
        )
    )
    try:
        here = curve.at(widths)
    except DataError:
        return
    assert scaled.at(widths) == pytest.approx(here, rel=1e-9)
    assert scaled.goodput(widths) * factor == pytest.approx(curve.goodput(widths), rel=1e-9)
    assert (here[:, 0] == 1.0).all()


@given(st.floats(0.0, 1e9), st.floats(0.0, 1e9), st.floats(1.0, 1e6))
def test_the_gain_lies_between_one_and_the_scale(q: float, v: float, scale: float) -> None:
    """An iteration at sigma times the batch makes the progress of 1 to sigma iterations."""
    gain = float(statistical_gain(np.array(q), np.array(v), np.array(scale)))
    assert 1.0 - 1e-12 <= gain <= scale * (1 + 1e-12)


def test_the_gain_at_its_ends() -> None:
    """Without noise a larger batch gains nothing; with noise only it gains its scale; without either nothing is known.

    In between: q = 2, v = 6, sigma = 3 gives (6 + 2) / (6/3 + 2) = 2.
    """
    q, v = np.array([1.0, 0.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.0, 6.0])
    assert statistical_gain(q, v, np.full(4, 3.0)).tolist() == [1.0, 3.0, 1.0, 2.0]


def test_statistics_are_linear_between_batch_sizes() -> None:
    """Half-way from 8 to 16 samples q is 3 and v is 6: at sigma = 12/8 that is (6 + 3) / (4 + 3) = 9/7."""
    table = GradientTable(
        batch_sizes=np.array([8, 16]), grad_sqr=np.array([[2.0, 4.0]]), grad_var=np.array([[4.0, 8.0]])
    )
    gain = table.gain(np.array([8, 12, 16]), 8)
    # At 16: v = 8, q = 4, sigma = 2: 12 / 8.
    assert gain == pytest.approx(np.array([[1.0, 9 / 7, 1.5]]), rel=1e-15)
    single = GradientTable(batch_sizes=np.array([8]), grad_sqr=np.array([2.0]), grad_var=np.array([4.0]))
    assert single.gain(np.array([8]), 8).tolist() == [[1.0]]


def test_goodput_without_noise_by_hand() -> None:
    """When a larger batch gains nothing, the quickest iteration is best.

    k = 1: 8 samples in one pass, 0.8 s. k = 2: 4 each, 0.4 + 0.3 = 0.7 s. k = 4: 16 samples at least, 4 each:
    0.4 + 0.3 + 0.2 = 0.9 s. k = 8 on two nodes: 0.4 + 0.6 + 1.2 = 2.2 s.
    """
    goodput = CURVE.goodput(np.array([1, 2, 4, 8]))
    assert goodput == pytest.approx(np.array([[1 / 0.8, 1 / 0.7, 1 / 0.9, 1 / 2.2]]), rel=1e-12)
    assert CURVE.at(np.array([2]))[0, 0] == pytest.approx(8 / 7, rel=1e-12)


def test_goodput_with_noise_only_by_hand() -> None:
    """When progress is proportional to the batch, the most samples per second are best.

    k = 1: 10 samples/s at any batch, that is 10/8 of the initial batch. k = 2: 64 samples in 4 passes of 8 take
    3.2 + 0.3 s. k = 8: 64 samples in one pass of 8 take 0.8 + 0.6 + 1.2 s.
    """
    noisy = CURVE.replace(
        gradients=GradientTable(batch_sizes=np.array([8, 64]), grad_sqr=np.zeros(2), grad_var=np.ones(2)),
        noise_scale_samples=None,
    )
    goodput = noisy.goodput(np.array([1, 2, 8]))
    assert goodput == pytest.approx(np.array([[10 / 8, 8 / 3.5, 8 / 2.6]]), rel=1e-12)


def test_the_noise_scale_is_the_ratio_of_the_statistics() -> None:
    """A noise scale of M0 v / q says the same as the statistics themselves, for each epoch."""
    v = np.array([[3.0, 3.0], [40.0, 40.0]])
    table = GradientTable(batch_sizes=np.array([8, 64]), grad_sqr=np.full((2, 2), 2.0), grad_var=v)
    by_table = CURVE.replace(gradients=table, noise_scale_samples=None)
    by_scale = CURVE.replace(noise_scale_samples=8 * v[:, 0] / 2.0)
    widths = np.arange(1, 17)
    assert by_scale.goodput(widths) == pytest.approx(by_table.goodput(widths), rel=1e-12)
    assert by_table.num_epochs == by_scale.num_epochs == 2
    assert CURVE.num_epochs is None


def test_overlap_takes_the_p_norm() -> None:
    """With gamma = 2, compute 0.4 s and synchronisation 0.3 s overlap to 0.5 s; accumulation adds whole passes."""
    p = PARAMETERS.replace(gamma=2.0)
    four, two = np.array([4]), np.array([2])
    assert p.iteration_time_s(np.array([1]), two, four).tolist() == pytest.approx([0.5], rel=1e-15)
    assert p.iteration_time_s(np.array([1]), two, four, 3).tolist() == pytest.approx([1.7], rel=1e-15)


@pytest.mark.parametrize("magnitude", [1e-60, 1e60])
def test_overlap_neither_overflows_nor_vanishes(magnitude: float) -> None:
    """The tenth power of a very short or very long time is not formed."""
    p = ThroughputParameters(
        alpha_c=magnitude, beta_c=0.0, alpha_n=magnitude, beta_n=0.0, alpha_r=magnitude, beta_r=0.0, gamma=10.0
    )
    time_s = p.iteration_time_s(np.array([1]), np.array([2]), np.array([1]))
    assert float(time_s[0]) == pytest.approx(magnitude * 2**0.1, rel=1e-12)


def test_one_gpu_accumulates_above_the_initial_batch() -> None:
    """One GPU runs the initial batch in one pass and any larger one in at least two; two GPUs need not."""
    rule = BatchRule(init_batch_size=8, max_batch_size=64, min_local_batch_size=4, max_local_batch_size=64)
    assert rule.split(np.array([1]), fixed_batch_size=8).accumulated.tolist() == [[0]]
    one, two = (rule.split(np.array([k]), fixed_batch_size=32) for k in (1, 2))
    assert (one.accumulated.item(), one.local_batch.item(), one.batch_size.item()) == (1, 16, 32)
    assert (two.accumulated.item(), two.local_batch.item(), two.batch_size.item()) == (0, 16, 32)


def test_local_batches_are_whole_and_stay_below_the_largest_batch() -> None:
    """64 samples on 3 GPUs are 22 each by the ceiling, 66 in all: the floor of 64/3 = 21 keeps 63."""
    rule = BatchRule(init_batch_size=8, max_batch_size=64, min_local_batch_size=4, max_local_batch_size=64)
    batches = rule.split(np.array([3]), fixed_batch_size=64)
    assert (batches.local_batch.item(), batches.batch_size.item(), batches.feasible.item()) == (21, 63, True)


def test_a_limit_for_each_width_counts_below_the_common_one() -> None:
    """With at most 16 samples per GPU on the second width, 64 on 2 GPUs take two passes instead of one."""
    rule = BatchRule(init_batch_size=8, max_batch_size=64, min_local_batch_size=4, max_local_batch_size=32)
    batches = rule.split(np.array([2, 2]), largest_local=np.array([99, 16]), fixed_batch_size=64)
    assert batches.accumulated.tolist() == [[0, 1]]
    assert batches.local_batch.tolist() == [[32, 16]]


def test_the_best_candidate_is_the_first_of_equals() -> None:
    """Gains 1, 4, 9 in 1, 2, 3 s give 1, 2, 3 per second; without the last the second wins, without all nobody."""
    gain = np.array([[[1.0, 1.0], [4.0, 4.0], [9.0, 9.0]]])
    time_s = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, np.nan]])
    feasible = np.array([[True, True], [True, True], [True, False]])
    goodput, best = best_goodput(gain, time_s, feasible)
    assert (goodput.tolist(), best.tolist()) == ([[3.0, 2.0]], [[2, 1]])
    assert best_goodput(gain, time_s, np.zeros((3, 2), dtype=bool))[0].tolist() == [[0.0, 0.0]]


def test_blocks_of_widths_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide requests are handled in blocks, to the same result."""
    widths = np.array([5, 1, 16, 3, 3])
    at_once = CURVE.goodput(widths)
    monkeypatch.setattr(goodput_module, "_BLOCK_ENTRIES", 2 * NUM_CANDIDATES)
    assert CURVE.goodput(widths).tolist() == at_once.tolist()
    assert CURVE.goodput(np.array([], dtype=np.int64)).shape == (1, 0)


def test_goodput_is_a_speedup_curve() -> None:
    """It has the protocol of curves, is known at every width and reads back from JSON by its form."""
    assert isinstance(CURVE, SpeedupCurve)
    assert CURVE.known_widths() is None
    adapter: TypeAdapter[Speedup] = TypeAdapter(Speedup)
    assert adapter.validate_python(CURVE.to_json_data()) == CURVE


def test_widths_without_a_feasible_batch_are_refused() -> None:
    """17 GPUs need 68 samples; the largest batch has 64."""
    message = (
        r"^widths: no batch size is feasible on 17 GPUs: at least 4 samples per GPU are needed and the largest batch "
        r"has 64; choose widths of at most 16 GPUs$"
    )
    with pytest.raises(DataError, match=message):
        CURVE.at(np.array([16, 17, 18]))


@pytest.mark.parametrize(("widths", "shown"), [([2.0, 1.5], "1.5"), ([1.0, 0.0], "0"), ([1.0, np.nan], "nan")])
def test_widths_are_whole_numbers(widths: list[float], shown: str) -> None:
    """Neither fractions nor zero are GPUs."""
    message = rf"^widths: entry \[1\]: got {shown}; whole numbers of at least 1 GPU are allowed; choose"
    with pytest.raises(DataError, match=message):
        CURVE.at(np.array(widths))


TABLE = GradientTable(batch_sizes=np.array([8, 32]), grad_sqr=np.ones(2), grad_var=np.ones(2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_batch_size": 7}, "init_batch_size is 8, above max_batch_size, which is 7; lower the one"),
        ({"min_local_batch_size": 9}, "min_local_batch_size is 9, above max_local_batch_size, which is 8"),
        (
            {"min_local_batch_size": 65, "max_local_batch_size": 65},
            "min_local_batch_size is 65, above max_batch_size, which is 64",
        ),
        ({"noise_scale_samples": None}, "give one of gradients and noise_scale_samples: both, or neither"),
        ({"gradients": TABLE}, "give one of gradients and noise_scale_samples: both, or neither"),
        (
            {"gradients": TABLE, "noise_scale_samples": None},
            r"gradients.batch_sizes range from 8 to 32; they must reach from init_batch_size \(8\) to max_batch_size "
            r"\(64\)",
        ),
        ({"noise_scale_samples": np.array([1.0, -2.0])}, r"noise_scale_samples: entry \[1\]: got -2.0; numbers not"),
        ({"noise_scale_samples": np.ones((1, 1))}, r"got an array of shape \(1, 1\); a number, or a list of one per"),
        ({"gpus_per_node": 0}, "gpus_per_node: got 0; input should be greater than or equal to 1"),
    ],
)
def test_contradictory_data_is_refused(changes: dict[str, FloatArray], message: str) -> None:
    """What cannot be meant names the fields and their values."""
    with pytest.raises(DataError, match=message):
        CURVE.replace(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta_c": 0.0}, "alpha_c and beta_c are both zero, so a pass would take no time"),
        ({"gamma": 0.5}, "gamma: got 0.5; input should be greater than or equal to 1"),
        ({"alpha_n": -1.0}, "alpha_n: got -1.0; input should be greater than or equal to 0"),
    ],
)
def test_impossible_times_are_refused(changes: dict[str, float], message: str) -> None:
    """Times are not negative and a pass takes some time."""
    with pytest.raises(DataError, match=message):
        PARAMETERS.replace(**changes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_sizes": [8, 8]}, r"batch_sizes: got \[8, 8\]; batch sizes of at least 1 in increasing order"),
        ({"batch_sizes": [0, 8]}, r"batch_sizes: got \[0, 8\]; batch sizes of at least 1 in increasing order"),
        ({"grad_sqr": [1.0, -1.0]}, r"grad_sqr: entry \[1\]: got -1.0; numbers not below zero are allowed"),
        ({"grad_var": [1.0]}, r"grad_sqr has shape \(2,\), grad_var \(1,\), for 2 batch sizes; give both one"),
    ],
)
def test_statistics_fit_their_batch_sizes(fields: dict[str, list[float]], message: str) -> None:
    """Batch sizes increase, statistics are not negative, and there is one for each."""
    with pytest.raises(DataError, match=message):
        GradientTable.parse({"batch_sizes": [8, 16], "grad_sqr": [1.0, 1.0], "grad_var": [1.0, 1.0], **fields})
