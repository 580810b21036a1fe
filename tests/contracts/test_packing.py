"""Packed lists: what goes in comes out, short lists are short, and nothing else can be unpacked."""

from __future__ import annotations

import zlib
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts.proofs import pack_integers, unpack_integers


@given(numbers=st.lists(st.integers(-(2**62), 2**62), max_size=50))
def test_what_goes_in_comes_out(numbers: list[int]) -> None:
    """Any whole numbers of 63 bits, in any order."""
    assert unpack_integers(pack_integers(np.array(numbers, dtype=np.int64)), 50).tolist() == numbers


def test_sorted_numbers_take_little() -> None:
    """10,000 numbers at steps of up to 1,000 need two bytes each, and a third more as text."""
    numbers = np.cumsum(np.random.default_rng(0).integers(0, 1000, 10_000))
    assert len(pack_integers(numbers)) < 10_000 * 2 * 4 / 3


BOMB = b64encode(zlib.compress(bytes(8 * 1_000_000))).decode()


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (17, "text is needed"),
        (None, "text is needed"),
        ("???", "cannot be read"),
        ("é", "cannot be read"),
        (b64encode(b"no zlib").decode(), "cannot be read"),
        (b64encode(zlib.compress(b"seven b")).decode(), "cut off"),
        (b64encode(zlib.compress(bytes(16))[:-3]).decode(), "cut off"),
        (b64encode(zlib.compress(bytes(16)) + b"more").decode(), "goes on after its end"),
        (BOMB, "more than 100 numbers"),
    ],
)
def test_nothing_else_can_be_unpacked(packed: object, message: str) -> None:
    """Not even what would fill the memory."""
    with pytest.raises(ValueError, match=message):
        unpack_integers(packed, 100)
