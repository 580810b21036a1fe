"""The exchange of gradients during the backward pass: transfers that start when a gradient is ready and share the bus.

The paper's event simulation (4.3). Equation 2 gives every active transfer its own bandwidth while their sum is below
the capacity, and otherwise the least of its own bandwidth and an equal share of the capacity. Transfers with the same
own bandwidth always run at the same pace, so what such a class has moved is counted once: an event costs a step for
each class and none for each transfer. ``exchange.pxd`` has the types with which Cython compiles this file; without a
compiler it runs as it stands, slower.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import accumulate

import numpy as np

from optplan.schema import FloatArray


class Exchange:
    """The transfers of one iteration, whatever its backward pass takes.

    With ``least_bytes_per_s`` it is a relaxation, which ends no later than the exchange of any transfers that are ready
    at the same shares, no smaller, and neither slower alone than that nor quicker than ``own_bytes_per_s``: equation 2
    gives less where more of them are active or their bandwidths add up to more, so whatever has less left goes on with
    no less. For the same reason its end, divided by the seconds of the backward pass, does not grow with these: in
    units of that time, transfers are ready at the same times and smaller.

    ``ready`` are (L,) shares of the backward pass after which each gradient is ready, ascending; ``volumes_bytes`` what
    a rank sends and receives for each, V = 2 s (n - 1) / n; ``own_bytes_per_s`` is the bus bandwidth of each were it
    alone, ``capacity_bytes_per_s`` that of all together, b_cap; ``least_bytes_per_s`` stands for the bandwidth of each
    where equation 2 adds them up.
    """

    def __init__(
        self,
        ready: FloatArray,
        volumes_bytes: FloatArray,
        own_bytes_per_s: FloatArray,
        capacity_bytes_per_s: float,
        least_bytes_per_s: FloatArray | None = None,
    ) -> None:
        least = own_bytes_per_s if least_bytes_per_s is None else least_bytes_per_s
        pairs = list(zip(own_bytes_per_s.tolist(), least.tolist(), strict=True))
        different = sorted(set(pairs))
        kinds = {pair: number for number, pair in enumerate(different)}
        classes = [kinds[pair] for pair in pairs]
        self.transfers, self.classes, self.capacity = len(ready), len(different), float(capacity_bytes_per_s)
        self.ready, self.volume = array("d", ready.tolist()), array("d", volumes_bytes.tolist())
        self.own, self.least = (array("d", [pair[of] for pair in different]) for of in (0, 1))
        self.kind = array("i", classes)
        #: By class: where its transfers begin, the first active one and how many, the bytes that each of them has moved
        #: since the class went live, and their pace; by place, at which count a transfer ends, and which it is.
        self.begin = array("i", [0, *accumulate(map(Counter(classes).__getitem__, range(len(different))))])
        self.head, self.number, self.live = (array("i", [0]) * self.classes for _ in range(3))
        self.moved, self.pace = (array("d", [0.0]) * self.classes for _ in range(2))
        self.target, self.ends = (array("d", [0.0]) * self.transfers for _ in range(2))
        self.which = array("i", [0]) * self.transfers

    def seconds(self, backward_s: float) -> float:
        """Return when the last transfer ends, t_pe, from the beginning of a backward pass of so many seconds."""
        return self.run(backward_s)

    def times(self, backward_s: float) -> FloatArray:
        """Return (L,) seconds at which each transfer ends."""
        self.run(backward_s)
        return np.array(self.ends)

    def run(self, backward_s: float) -> float:
        """Go from event to event, note when each transfer ends, and return when the last does."""
        endless = 1e300 * 1e300
        started, active, lives, now = 0, 0, 0, 0.0
        while started < self.transfers or active:
            demand = 0.0
            for place in range(lives):
                each = self.live[place]
                demand += self.least[each] * self.number[each]
            share = endless
            if active and demand >= self.capacity:
                share = self.capacity / active
            step, first = endless, -1
            for place in range(lives):
                each = self.live[place]
                self.pace[each] = self.own[each] if self.own[each] < share else share
                lasting = (self.target[self.head[each]] - self.moved[each]) / self.pace[each]
                if lasting < step:
                    step, first = lasting, each
            arrives = started < self.transfers and self.ready[started] * backward_s - now <= step
            if arrives:
                step = self.ready[started] * backward_s - now
                if step < 0.0:
                    step = 0.0
            for place in range(lives):
                each = self.live[place]
                self.moved[each] += step * self.pace[each]
            if arrives:
                if self.ready[started] * backward_s > now:
                    now = self.ready[started] * backward_s
                lives = self.start(started, lives)
                started, active = started + 1, active + 1
                continue
            now += step
            self.moved[first] = self.target[self.head[first]]  # exactly, whatever rounding left
            while self.number[first] and self.target[self.head[first]] <= self.moved[first]:
                self.ends[self.which[self.head[first]]] = now
                self.head[first] += 1
                self.number[first] -= 1
                active -= 1
            if not self.number[first]:
                lives = self.leave(first, lives)
        return now

    def start(self, started: int, lives: int) -> int:
        """Take a transfer among the active ones of its class, the first to end first; return how many classes live."""
        each = self.kind[started]
        if not self.number[each]:
            self.live[lives] = each
            lives += 1
            self.moved[each] = 0.0
            self.head[each] = self.begin[each]
        target = self.moved[each] + self.volume[started]
        place = self.head[each] + self.number[each]
        while place > self.head[each] and self.target[place - 1] > target:
            self.target[place], self.which[place] = self.target[place - 1], self.which[place - 1]
            place -= 1
        self.target[place], self.which[place] = target, started
        self.number[each] += 1
        return lives

    def leave(self, gone: int, lives: int) -> int:
        """Drop a class of which no transfer is active; return how many classes live."""
        kept = 0
        for place in range(lives):
            if self.live[place] != gone:
                self.live[kept] = self.live[place]
                kept += 1
        return kept
