"""The list of fleets: all that reach the batch, each once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.published.planners import CountRange, FleetList

MakeInstance = Callable[..., SriftInstance]
Fleet = tuple[tuple[str, int, int], ...]


def write(fleet: tuple[VmGroup, ...]) -> Fleet:
    """Return (type, count, batch) by group."""
    return tuple((group.type, group.count, group.batch) for group in fleet)


def look_at_all(instance: SriftInstance, ranges: list[CountRange]) -> set[Fleet]:
    """List fleets by going through the counts of all (type, batch)."""
    cells = [(each.name, batch, each.most) for each in ranges for batch in reversed(instance.batches_of[each.name])]
    found = set()
    for counts in itertools.product(*(range(most + 1) for _, _, most in cells)):
        groups = tuple((cell[0], count, cell[1]) for cell, count in zip(cells, counts, strict=True) if count)
        names = [name for name, _, _ in groups]
        totals = {each: sum(n for name, n, _ in groups if name == each.name) for each in ranges}
        if (
            sum(count * batch for _, count, batch in groups) == instance.global_batch
            and all(each.least <= total <= each.most for each, total in totals.items())
            and len(set(names)) == len(names)
        ):
            found.add(tuple(sorted(groups, key=lambda group: (list(instance.types).index(group[0]), -group[2]))))
    return found


def test_fleets_of_two_types(make_instance: MakeInstance) -> None:
    """64 samples: a big VM takes 16 or 32, small ones 16 or 32, so that 4 units of 16 are to be shared."""
    instance = make_instance(
        types={"big": {"gpu": "fast", "gpus": 2, "batches": [16, 32]}, "small": {"batches": [16, 32]}}
    )
    listed = FleetList(instance, instance.batches_of)
    found = {write(fleet) for fleet in listed.fleets([CountRange("big", 0, 1), CountRange("small", 0, 3)])}
    assert found == {
        (("big", 1, 16), ("small", 3, 16)),
        (("big", 1, 32), ("small", 2, 16)),
        (("big", 1, 32), ("small", 1, 32)),
        (("small", 2, 32),),
    }


def test_a_batch_that_nothing_reaches_has_no_fleet(make_instance: MakeInstance) -> None:
    """Sums of even batches are never odd."""
    instance = make_instance(global_batch=63, types={"a": {"batches": [4, 6]}, "b": {"batches": [2]}})
    listed = FleetList(instance, instance.batches_of)
    assert not list(listed.fleets([CountRange("a", 0, 20), CountRange("b", 0, 40)]))


@given(data=st.data())
def test_every_fleet_is_listed_once(data: st.DataObject, make_instance: MakeInstance) -> None:
    """Against the product of all counts, for any ranges and batches."""
    number = data.draw(st.integers(1, 3))
    types, ranges = {}, []
    for name in "abc"[:number]:
        batches = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=2, unique=True))
        types[name] = {"batches": sorted(batches)}
        least = data.draw(st.integers(0, 2))
        ranges.append(CountRange(name, least, data.draw(st.integers(least, 4))))
    samples = data.draw(st.integers(1, 40))
    instance = make_instance(global_batch=samples, types=types)
    listed = [write(fleet) for fleet in FleetList(instance, instance.batches_of).fleets(ranges)]
    assert len(listed) == len(set(listed))
    assert set(listed) == look_at_all(instance, ranges)
