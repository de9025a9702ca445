"""What is known of earlier payments, at rest: one sealed file beside the journal.

    file     id, in the clear │ pieces, each with its length before it
    pieces   a description in JSON, then the arrays, cut into some megabytes each; all sealed

It is replaced in one piece: after kill -9 or a power cut there is the old one or the new one.  A
piece is bound to the file and to its place in it.  It can be made again from the training rows and
the journal, so a file that is damaged costs time and nothing else.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import StoreError
from pv4fad.files import whole_file
from pv4fad.lead.known_rows import Snapshot
from pv4fad.randomness import secret_bytes
from pv4fad.store.sealing import Label, Sealer

FILE_NAME = "known.bin"
_VERSION = 1
_ID_BYTES = 16
_PIECE_BYTES = 8 * 2**20
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Kept:
    """A snapshot, and which payments of the journal are in it."""

    snapshot: Snapshot = field(repr=False)
    journal: str
    """The id of the journal."""
    n_blocks: int
    """All of its first blocks."""
    also: frozenset[str] = field(repr=False)
    """Ids of payments of later blocks."""


def write_snapshot(path: Path, sealer: Sealer, kept: Kept) -> None:
    """In place of the one that is there."""
    snapshot = kept.snapshot
    description = {
        "schema": snapshot.schema_digest,
        "training": snapshot.training,
        "rows": snapshot.n_rows,
        "journal": kept.journal,
        "blocks": kept.n_blocks,
        "also": sorted(kept.also),
        "arrays": [
            [name, array.dtype.str, list(array.shape)] for name, array in snapshot.arrays.items()
        ],
    }
    file_id = secret_bytes(_ID_BYTES)
    with whole_file(path, private=True) as file:
        file.write(file_id)
        pieces = [memoryview(json.dumps(description).encode())]
        for array in snapshot.arrays.values():
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            pieces += [raw[at : at + _PIECE_BYTES] for at in range(0, len(raw), _PIECE_BYTES)]
        for number, piece in enumerate(pieces):
            sealed = sealer.seal(piece, _label(file_id, number))
            file.write(_LENGTH.pack(len(sealed)))
            file.write(sealed)


def read_snapshot(path: Path, sealer: Sealer) -> Kept | None:
    """None if there is none; StoreError if it is damaged."""
    try:
        with path.open("rb") as file:
            pieces = _pieces(file, sealer)
            found = json.loads(next(pieces))
            arrays = {
                name: _array(np.dtype(dtype), tuple(shape), pieces)
                for name, dtype, shape in found["arrays"]
            }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        raise StoreError(f"{path} is damaged, or of another version") from None
    snapshot = Snapshot(found["schema"], found["training"], found["rows"], arrays)
    return Kept(snapshot, found["journal"], found["blocks"], frozenset(found["also"]))


def _pieces(file: IO[bytes], sealer: Sealer) -> Iterator[bytes]:
    file_id, number = file.read(_ID_BYTES), 0
    while length := file.read(_LENGTH.size):
        (n_bytes,) = _LENGTH.unpack(length.ljust(_LENGTH.size, b"\xff"))
        if n_bytes > 2 * _PIECE_BYTES:
            raise ValueError("a piece that is too long")
        yield sealer.open(file.read(n_bytes), _label(file_id, number))
        number += 1


def _array(dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterator[bytes]) -> NDArray[Any]:
    raw = np.empty(prod(shape) * dtype.itemsize, np.uint8)
    for at in range(0, len(raw), _PIECE_BYTES):
        part = raw[at : at + _PIECE_BYTES]
        part[:] = np.frombuffer(next(pieces), np.uint8)
    return raw.view(dtype).reshape(shape)


def _label(file_id: bytes, number: int) -> Label:
    return ("pv4fad known payments", _VERSION, file_id.hex(), number)
