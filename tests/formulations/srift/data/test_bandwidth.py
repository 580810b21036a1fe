from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.formulations.srift.data.bandwidth import BandwidthTable, LatencyBandwidth, MeasuredBandwidth, volume_factor


def test_plain_model_by_hand() -> None:
    """4 MB among 4 ranks: V = 2 * 3/4 * 4 MB = 6 MB; at 1 GB/s 6 ms, and 6 steps of 1 ms: 6 MB / 12 ms = 0.5 GB/s."""
    model = LatencyBandwidth(step_latency_s=1e-3)
    assert volume_factor(4) == 1.5
    assert model.bus_bytes_per_s([("a", 1e9), ("b", 2e9)], 4, np.array([4e6])) == pytest.approx(0.5e9, rel=1e-12)
    assert model.bus_bytes_per_s([("a", 1e9)], 1, np.array([4e6])).tolist() == [math.inf]


def _table(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of any kind
    fields = {"ranks": [2, 8], "sizes_bytes": [1024, 4096], "bus_gbit_per_s": [[2.0, 4.0], [1.0, 3.0]]}
    return fields | changes


def test_tables_are_linear_in_logarithms() -> None:
    """2048 bytes lie halfway from 1024 to 4096, 4 ranks from 2 to 8: 3 and 2 Gbit/s, 2.5 between; held outside."""
    table = BandwidthTable.parse(_table())
    gbit = 1e9 / 8
    assert table.bus_bytes_per_s(2, np.array([1024.0, 2048.0, 2**20])) == pytest.approx(
        [2 * gbit, 3 * gbit, 4 * gbit], rel=1e-12
    )
    assert table.bus_bytes_per_s(4, np.array([2048.0])) == pytest.approx([2.5 * gbit], rel=1e-12)
    assert table.bus_bytes_per_s(64, np.array([4.0])) == pytest.approx([1.0 * gbit], rel=1e-12)


def test_mixed_sets_have_the_least_bandwidth() -> None:
    """Of two types the slower one counts, size by size; one rank exchanges nothing."""
    other = _table(bus_gbit_per_s=[[9.0, 1.0], [9.0, 1.0]])
    model = MeasuredBandwidth.parse({"tables": {"a": _table(), "b": other}})
    found = model.bus_bytes_per_s([("a", 1.0), ("b", 1.0)], 2, np.array([1024.0, 4096.0]))
    assert found == pytest.approx(np.array([2.0, 1.0]) * 1e9 / 8, rel=1e-12)
    assert model.bus_bytes_per_s([("a", 1.0)], 1, np.array([1.0])).tolist() == [math.inf]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": [8, 2]}, "ranks: got [8, 2]; list each once, ascending"),
        ({"ranks": [1, 2]}, "ranks: got 1; an all-reduce has two ranks or more"),
        ({"sizes_bytes": [4096, 1024]}, "sizes_bytes: got [4096.0, 1024.0]; list each once, ascending"),
        ({"bus_gbit_per_s": [[1.0, 2.0]]}, "bus_gbit_per_s: has the shape (1, 2); (2, 2) is needed"),
        ({"bus_gbit_per_s": [[1.0, 0.0], [1.0, 1.0]]}, "bus_gbit_per_s: entry [0][1]: got 0.0; numbers above zero"),
    ],
)
def test_wrong_tables(changes: dict[str, Any], message: str) -> None:
    """Each mistake is named with the field, the value and what to do."""
    with pytest.raises(DataError, match=re.escape(message)):
        BandwidthTable.parse(_table(**changes))
