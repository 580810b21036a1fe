"""Whether any fleet at all has exactly the global batch: sums of samples as the bits of whole numbers."""

from __future__ import annotations

from optplan.formulations.srift.data.instance import SriftInstance
from optplan.progress import Stopwatch


def has_batch(instance: SriftInstance, stopwatch: Stopwatch) -> bool:
    """Whether VMs on offer, with those that run, can have exactly the global batch; limits are not looked at."""
    sums = {name: _sum_up(instance, name, stopwatch) for name in instance.types}
    running = {name for name, vm in instance.types.items() if vm.running}
    wanted = 1 << instance.global_batch
    if not instance.mixed:
        return any(sums[name] & wanted for name in (running or sums))
    reached = 1
    for name, own in sums.items():
        reached = _combine(reached, own if name in running else own | 1, instance.global_batch, stopwatch)
    return bool(reached & wanted)


def _sum_up(instance: SriftInstance, name: str, stopwatch: Stopwatch) -> int:
    """Return the samples that VMs of one type can have: one VM at least, and all that run."""
    least, most, limit = max(1, instance.types[name].running), instance.most_of(name), instance.global_batch
    batches, mask, found = instance.batches_of[name], (1 << (limit + 1)) - 1, 0
    if instance.one_batch_per_type:
        for batch in batches:
            stopwatch.require()
            found |= _multiply(batch, least, min(most, limit // batch))
        return found
    with_count = 1
    for count in range(1, most + 1):
        stopwatch.require()
        if not with_count:
            break
        more = 0
        for batch in batches:
            more |= with_count << batch
        with_count = more & mask
        found |= with_count if count >= least else 0
    return found


def _multiply(batch: int, least: int, most: int) -> int:
    """Return the bits of the multiples of a batch by all numbers from the least to the most."""
    if most < least:
        return 0
    found, number = 1, 1
    while number < most - least + 1:
        more = min(number, most - least + 1 - number)
        found, number = found | found << (more * batch), number + more
    return found << (least * batch)


def _combine(one: int, other: int, limit: int, stopwatch: Stopwatch) -> int:
    """Return the sums of a number of each set, up to a limit."""
    mask, total = (1 << (limit + 1)) - 1, 0
    if one.bit_count() > other.bit_count():
        one, other = other, one
    while one:
        stopwatch.require()
        lowest = one & -one
        total |= (other << (lowest.bit_length() - 1)) & mask
        one ^= lowest
    return total
