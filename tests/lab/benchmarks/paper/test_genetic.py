"""Pollux by the search as it was published: what its name says of its size."""

from __future__ import annotations

from typing import Any

import pytest
from paper.genetic import SearchedCell, read_size

from optplan.errors import UsageError


def test_how_large_the_published_search_is_can_be_said() -> None:
    """``20x50`` is 20 divisions that change 50 times; without it there are 100, changed 100 times, in the name too."""

    def name(policy: str) -> Any:  # noqa: ANN401
        return SearchedCell(workload="trace.csv", profiles="profiles", policy=policy).make_policy().name

    assert read_size("20x50") == (20, 50)
    assert name("pollux-nsga2:20x50") == "pollux-nsga2:20x50"
    assert name("pollux-nsga2:100x100") == name("pollux-nsga2") == "pollux-nsga2"
    for wrong in ("20", "1x50", "20x0", "x", "-2x5"):
        with pytest.raises(UsageError, match=r"give divisions \(2 or more\) and how often they change, such as 20x50"):
            name(f"pollux-nsga2:{wrong}")
