"""Long lists of whole numbers as short text, for certificates: differences, byte by byte, compressed."""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode

import numpy as np

from optplan.schema import IntArray

_BYTES = 8


def pack_integers(numbers: IntArray) -> str:
    """Return (N,) whole numbers of up to 63 bits as text; sorted ones take least."""
    steps = np.diff(numbers, prepend=0).astype("<i8")
    # Bytes of the same weight lie together: those of small differences are mostly zeros.
    return b64encode(zlib.compress(steps.view(np.uint8).reshape(-1, _BYTES).T.tobytes(), 9)).decode("ascii")


def unpack_integers(packed: object, most: int) -> IntArray:
    """Return the numbers of a packed list.

    Parameters
    ----------
    packed
        From :func:`pack_integers`, or anything else that a file may hold.
    most
        How many there may be; more are not unpacked.

    Raises
    ------
    ValueError
        When it is no packed list, or too long.
    """
    if not isinstance(packed, str):
        raise ValueError("text is needed for a packed list")
    engine = zlib.decompressobj()
    try:
        raw = engine.decompress(b64decode(packed, validate=True), most * _BYTES + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"a packed list cannot be read: {error}") from None
    if len(raw) > most * _BYTES:
        raise ValueError(f"a packed list has more than {most:,} numbers")
    if len(raw) % _BYTES or not engine.eof or engine.unused_data:
        raise ValueError("a packed list is cut off, or goes on after its end")
    steps = np.frombuffer(raw, dtype=np.uint8).reshape(_BYTES, -1).T.copy().view("<i8").ravel()
    return np.cumsum(steps, dtype=np.int64)
