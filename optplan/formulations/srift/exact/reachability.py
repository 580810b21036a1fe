"""What can be chosen: how many choices there are, and which global batches the VMs on offer can have.

The latter are subset sums by dynamic programming, as bits of whole numbers.
"""

from __future__ import annotations

from optplan.contracts.parts import Description
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.progress import OutOfTime, Stopwatch
from optplan.schema import LARGEST_COUNT


def describe(instance: SriftInstance) -> Description:
    """Return what solvers are matched against; cells are choices of a type, a batch and a count."""
    cells = sum(len(batches) * instance.most_of(name) for name, batches in instance.batches_of.items())
    features = {
        "interruptions": instance.interruptions is not None,
        "running": any(vm.running for vm in instance.types.values()),
    }
    return Description(
        problem=instance.problem.value,
        policy=instance.policy.value,
        cells=cells,
        features=frozenset(name for name, present in features.items() if present),
    )


def reaches_batch(instance: SriftInstance, stopwatch: Stopwatch | None = None) -> bool:
    """Whether some fleet has exactly the global batch, whatever the limits; raises OutOfTime when that takes long."""
    reached = _reach(instance, instance.global_batch, stopwatch or Stopwatch())
    return bool(reached >> instance.global_batch & 1)


def find_neighbours(instance: SriftInstance) -> tuple[int | None, int | None]:
    """Return the nearest global batches, below and above one that no fleet has, that some fleet has exactly.

    None where there is none; above up to twice the instance's and one VM more. Limits are not looked at.
    """
    batch = instance.global_batch
    largest = max((int(choices[-1]) for choices in _choices(instance, batch).values() if choices), default=0)
    sums = _reach(instance, 2 * batch + largest, Stopwatch())
    below, above = sums & ((1 << batch) - 1) & ~1, sums >> (batch + 1)
    return (
        below.bit_length() - 1 if below else None,
        batch + (above & -above).bit_length() if above else None,
    )


def count_missing(instance: SriftInstance, stopwatch: Stopwatch) -> dict[str, int]:
    """Return by type how many VMs more than are available would make the batch reachable, if only that type had more.

    Types that cannot help are left out, and those of which it is not found in time.
    """
    found = {}
    for name, vm in instance.types.items():
        if vm.available is None:
            continue
        most = instance.global_batch // min(instance.batches_of[name], default=instance.global_batch + 1)
        least = vm.available + 1
        try:
            # What so many reach, more reach, too: the least number that does is found by halving.
            if most < least or not reaches_batch(_offer(instance, name, most), stopwatch):
                continue
            while least < most:
                middle = (least + most) // 2
                if reaches_batch(_offer(instance, name, middle), stopwatch):
                    most = middle
                else:
                    least = middle + 1
        except OutOfTime:
            break
        found[name] = least - vm.available
    return found


def _offer(instance: SriftInstance, name: str, available: int) -> SriftInstance:
    return instance.replace(types={**instance.types, name: instance.types[name].replace(available=available)})


def _choices(instance: SriftInstance, most: int) -> dict[str, tuple[int, ...]]:
    """Return the choices of batches by type, up to so many samples and to the most that a VM may have."""
    return instance.replace(global_batch=min(most, LARGEST_COUNT)).batches_of


def _reach(instance: SriftInstance, most: int, stopwatch: Stopwatch) -> int:
    """Return the sums up to so many samples that fleets can have: bit s stands for s samples."""
    choices, mask = _choices(instance, most), (1 << (most + 1)) - 1
    own = {name: _reach_with(instance, name, choices[name], most, stopwatch) for name in instance.types}
    if not instance.mixed:
        kept = [name for name, vm in instance.types.items() if vm.running]
        sums = 0
        for name in kept or own:
            sums |= own[name]
        return sums
    reached = 1
    for name, sums in own.items():
        allowed = sums if instance.types[name].running else sums | 1
        reached = _add(reached, allowed, stopwatch) & mask
    return reached


def _add(one: int, other: int, stopwatch: Stopwatch) -> int:
    """Return the sums of a number of one set and a number of another."""
    few, many = sorted((one, other), key=int.bit_count)
    total = 0
    while few:
        stopwatch.require()
        lowest = few & -few
        total |= many << (lowest.bit_length() - 1)
        few ^= lowest
    return total


def _reach_with(instance: SriftInstance, name: str, batches: tuple[int, ...], most: int, stopwatch: Stopwatch) -> int:
    """Return the sums that VMs of one type can have, as many as must and may be there, and one at least."""
    vm = instance.types[name]
    if not batches:
        return 0
    largest = most // batches[0]
    available = largest if vm.available is None else min(vm.available, largest)
    least, found, mask = max(1, vm.running), 0, (1 << (most + 1)) - 1
    if instance.one_batch_per_type:
        for batch in batches:
            stopwatch.require()
            number = min(available, most // batch) - least + 1
            multiples, there = int(number > 0), 1
            while there < number:  # the multiples by as many numbers again
                more = min(there, number - there)
                multiples, there = multiples | multiples << (more * batch), there + more
            found |= multiples << (least * batch)
        return found
    layer = 1
    for count in range(1, available + 1):
        stopwatch.require()
        wider = 0
        for batch in batches:
            wider |= layer << batch
        layer = wider & mask
        found |= layer if count >= least else 0
    return found
