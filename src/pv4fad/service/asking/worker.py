"""A process that makes live queries for some banks; it talks through its standard input and output.

    in    bank    public key, flood, sets, where its shares are        once for each bank
          begin                                                        all banks are there
          query   number of the bank, number of the query, questions
    out   ready                                                        after `begin`
          made    both numbers, sums of ρ, the ciphertext

It makes masks whenever nobody asks for anything, up to a few for each bank.  Masks and shares are
in its memory and end with it; it ends when its input does, as it does when its parent was killed.

A frame is a length, a kind and a body.  The shares come through a file without a name, which the
process inherits: they are the same for every worker, and for one that is started again.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, BinaryIO

import numpy as np

from pv4fad.he.keys import PublicKey
from pv4fad.he.ring import Ring, share_ring
from pv4fad.he.sanitise import Flood
from pv4fad.protocol.live.plan import TRACKS
from pv4fad.protocol.live.steps import Placed, Query, QueryMaker

MASKS_AHEAD = 4
"""For each bank: so many ticks can follow one another before a query waits for its mask."""
HEAD = struct.Struct("<IB")  # length of the body, kind
_QUERY = struct.Struct("<HQI")  # bank, number, questions
_MADE = struct.Struct("<HQ")  # bank, number
_LENGTH = struct.Struct("<I")
_PIPE_BYTES = 2**20
"""Some queries: the worker goes on while nobody reads them."""


class Kind(IntEnum):
    """What a frame is."""

    BANK = 0
    BEGIN = 1
    QUERY = 2
    READY = 3
    MADE = 4


def frame(kind: Kind, body: bytes = b"") -> bytes:
    return HEAD.pack(len(body), kind) + body


@dataclass(frozen=True)
class BankSetup:
    """What a worker is told about a bank; its shares are `n_blocks` pieces of the file."""

    public: PublicKey = field(repr=False)
    flood: Flood
    coefficients: list[list[int]]
    first_byte: int
    n_blocks: int

    def to_bytes(self) -> bytes:
        head = {
            "modulus": self.public.ring.plain_modulus,
            "key": self.public.name,
            "flood": [self.flood.n_primes, self.flood.reach, self.flood.n_sent],
            "coefficients": self.coefficients,
            "first_byte": self.first_byte,
            "n_blocks": self.n_blocks,
        }
        text = json.dumps(head).encode()
        return _LENGTH.pack(len(text)) + text + self.public.data

    @classmethod
    def from_bytes(cls, body: bytes) -> BankSetup:
        (length,) = _LENGTH.unpack_from(body)
        start = _LENGTH.size + length
        head: dict[str, Any] = json.loads(body[_LENGTH.size : start])
        public = PublicKey(share_ring(head["modulus"]), head["key"], body[start:])
        flood = Flood(*head["flood"])
        return cls(public, flood, head["coefficients"], head["first_byte"], head["n_blocks"])

    def maker(self, shares: int) -> QueryMaker:
        """`shares`: the descriptor of their file."""
        maker = QueryMaker(self.public, self.flood, self.coefficients)
        ring = Ring.of(self.public.ring)
        size = ring.ciphertext_bytes(ring.parameters.n_data_primes)
        n_atoms = len(self.coefficients[0])
        for block in range(self.n_blocks):
            data = os.pread(shares, n_atoms * size, self.first_byte + block * n_atoms * size)
            maker.add_block([data[i * size : (i + 1) * size] for i in range(n_atoms)])
        return maker


def query_body(bank: int, number: int, placed: Placed) -> bytes:
    arrays = np.stack([placed.block, placed.slot, placed.set, placed.weight]).astype("<i4")
    return _QUERY.pack(bank, number, len(placed)) + arrays.tobytes()


def read_query(body: bytes) -> tuple[int, int, Placed]:
    bank, number, n = _QUERY.unpack_from(body)
    arrays = np.frombuffer(body, "<i4", offset=_QUERY.size).reshape(4, n).astype(np.int64)
    return bank, number, Placed(*arrays)


def made_body(bank: int, number: int, query: Query) -> bytes:
    return _MADE.pack(bank, number) + query.rho.astype("<u4").tobytes() + query.ciphertext


def read_made(body: bytes) -> tuple[int, int, Query]:
    bank, number = _MADE.unpack_from(body)
    rho = np.frombuffer(body, "<u4", TRACKS, _MADE.size)
    return bank, number, Query(body[_MADE.size + 4 * TRACKS :], rho)


class _Worker:
    def __init__(self, shares: int, into: BinaryIO, out: BinaryIO) -> None:
        self._shares, self._in, self._out = shares, into, out
        self._makers: list[QueryMaker] = []

    def run(self) -> None:
        """Until the input ends."""
        begun = False
        while True:
            short = min(self._makers, key=lambda one: one.n_masks, default=None)
            if begun and short is not None and short.n_masks < MASKS_AHEAD and not self._is_asked():
                short.prepare()
                continue
            head = self._in.read(HEAD.size)
            if len(head) < HEAD.size:
                return
            length, kind = HEAD.unpack(head)
            body = self._in.read(length)
            if kind == Kind.BANK:
                self._makers.append(BankSetup.from_bytes(body).maker(self._shares))
            elif kind == Kind.BEGIN:
                begun = self._begin()
            else:
                bank, number, placed = read_query(body)
                query = self._makers[bank].query(placed)
                self._send(Kind.MADE, made_body(bank, number, query))

    def _begin(self) -> bool:
        for maker in self._makers * MASKS_AHEAD:
            maker.prepare()
        gc.collect()
        gc.freeze()  # what is here stays: later collections need not look at it
        self._send(Kind.READY)
        return True

    def _is_asked(self) -> bool:
        return bool(select.select([self._in], [], [], 0)[0])

    def _send(self, kind: Kind, body: bytes = b"") -> None:
        self._out.write(frame(kind, body))
        self._out.flush()


def main() -> None:
    """`python -m pv4fad.service.asking.worker DESCRIPTOR`."""
    # Whatever else writes to the standard output must not end up between frames.
    out = os.fdopen(os.dup(1), "wb")
    with suppress(AttributeError, OSError):  # not everywhere, not to everybody
        fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    os.dup2(2, 1)
    into = os.fdopen(os.dup(0), "rb", buffering=0)
    try:
        _Worker(int(sys.argv[1]), _Whole(into), out).run()  # type: ignore[arg-type]
    except BrokenPipeError:
        return


class _Whole:
    """Reads as many bytes as it is asked for, and buffers none: `select` has to see the rest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self, n: int) -> bytes:
        parts, left = [], n
        while left and (part := self._file.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


if __name__ == "__main__":
    main()
