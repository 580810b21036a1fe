"""Distributions that were made lately, found by what they are made of.

Searches that share a training profile ask for the same ones again: the judge after the solver, and the next instance.
What has not been asked for longest goes first, so that many widths do not fill the memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar, cast

_Found = TypeVar("_Found")


class LruCache:
    """Remembers what was made, up to a size of all together, in the unit of the sizes given."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def find(self, key: Hashable, make: Callable[[], _Found], measure: Callable[[_Found], int]) -> _Found:
        """Return what is there under a key, of all that the value follows from, or make it and put it there."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return cast("_Found", self._entries[key][0])
        made = make()
        with self._lock:
            self._drop(key)
            self._entries[key] = made, measure(made)
            self.size += self._entries[key][1]
            while self.size > self.most and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))
        return made

    def _drop(self, key: Hashable) -> None:
        """Take an entry out, if there is one."""
        _, size = self._entries.pop(key, (None, 0))
        self.size -= size
