"""The local steps of ask live: queries in a worker process of S, replies at the bank, bits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import OrderError, ProtocolError
from pv4fad.he.circuits import MOST_IN_RUN
from pv4fad.he.keys import Decryptor, Evaluator, PublicKey, SecretKey
from pv4fad.he.one_hot import OneHot, weight_bits
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.live.plan import TRACKS, track_sums
from pv4fad.randomness import secret_residues

DOUBLED_PER_BLOCK = 3
"""Sums of D that a process keeps at most, 0.8 MB each."""

Integers = NDArray[np.int64]
Values = NDArray[np.uint32]


@dataclass(frozen=True)
class Placed:
    """The questions of a query; arrays of equal length."""

    block: Integers = field(repr=False)
    slot: Integers = field(repr=False)
    set: Integers = field(repr=False)
    weight: Integers = field(repr=False)

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def track(self) -> Integers:
        return self.slot % TRACKS

    def require_fit(self, plain_modulus: int) -> None:
        """Each question once; within a track all weights differ, and a value holds them."""
        bits = weight_bits(plain_modulus)
        places = self.track * bits + self.weight
        if (self.weight < 0).any() or (self.weight >= bits).any():
            raise OrderError("a question with a weight that no track holds")
        if len(np.unique(places)) < len(places):
            raise OrderError("two questions have the same place in a reply")
        if len(np.unique(np.stack([self.block, self.slot, self.set]), axis=1).T) < len(self):
            raise OrderError("the same question twice in a query")


@dataclass
class Mask:
    """The mask of a query, step 0: M, and what S has to know of ρ.  It serves one query."""

    ciphertext: Ciphertext = field(repr=False)
    rho: Values = field(repr=False)  # the sums over tracks


@dataclass(frozen=True)
class Query:
    """What step 1 yields: Z for the bank, and the sums of ρ over tracks, which S keeps."""

    ciphertext: bytes = field(repr=False)
    rho: Values = field(repr=False)


class QueryMaker:
    """Steps 0 and 1 for one bank.

    Masks are in the memory of this process alone: never stored, sent or copied.  Two queries under
    one mask would tell the bank their difference.
    """

    def __init__(
        self, public: PublicKey, flood: Flood, coefficients: Sequence[Sequence[int]]
    ) -> None:
        """`coefficients`: c_k of each set, (sets, atoms)."""
        self._ring = Ring.of(public.ring)
        self._flood = flood
        self._evaluator, self._sanitiser = Evaluator(public), Sanitiser(public, flood)
        self._coefficients = tuple(tuple(row) for row in coefficients)
        self._top = self._ring.parameters.n_data_primes
        self._one_hot = OneHot(self._ring, self._top)
        self._header, _ = self._ring.plaintext_parts(
            self._ring.encode(np.arange(self._ring.degree))
        )
        self._blocks: list[list[Ciphertext]] = []  # D, [block][set], at the top
        self._doubled: dict[tuple[int, ...], Ciphertext] = {}
        self._masks: deque[Mask] = deque()

    def add_block(self, encrypted_shares: Sequence[bytes]) -> None:
        """The next block: E_j[s_k] for each atom k."""
        shares = [self._ring.load(data, self._top) for data in encrypted_shares]
        made = [
            self._evaluator.combination(shares, [-c for c in row]) for row in self._coefficients
        ]
        if not self._blocks:  # what has a correction factor would be multiplied with its noise
            low = self._evaluator.switch_to(made[0], self._flood.n_primes)
            self._ring.require_like_fresh(low, self._flood.n_primes)
        self._blocks.append(made)

    @property
    def n_masks(self) -> int:
        return len(self._masks)

    def prepare(self) -> None:
        """Step 0, once: for a query to come."""
        self._masks.append(self._mask())

    def query(self, placed: Placed) -> Query:
        """Step 1; without questions, a query like any other."""
        t = self._ring.plain_modulus
        placed.require_fit(t)
        total = self._products(placed)
        mask = self._masks.popleft() if self._masks else self._mask()
        z = mask.ciphertext
        if total is not None:
            self._evaluator.add(z, self._evaluator.switch_to(total, self._flood.n_primes))
        return Query(self._ring.dump(self._evaluator.switch_to(z, 1)), mask.rho)

    def _products(self, placed: Placed) -> Ciphertext | None:
        """Σ 2^w·onehot(slot)·D[block, set].

        One product for each block and *run* of sets: questions about one account that have weights
        w, w + 1, w + 2 … are one slot with 2^w of a mask, times D_0 + 2·D_1 + 4·D_2 …
        """
        total: Ciphertext | None = None
        for run, slots in runs_of(placed).items():
            slot, weight = np.array(slots).T
            one_hot = self._one_hot.of(slot, weight)
            total = self._evaluator.add_prepared(total, self._doubled_sum(run), one_hot)
        return total

    def _doubled_sum(self, run: tuple[int, ...]) -> Ciphertext:
        """D_0 + 2·D_1 + 4·D_2 … of a block and its sets; most queries need the same few of them."""
        if run not in self._doubled:
            if len(self._doubled) >= DOUBLED_PER_BLOCK * len(self._blocks):
                self._doubled.clear()
            block, *sets = run
            self._doubled[run] = self._evaluator.doubled_sum(
                [self._blocks[block][one] for one in sets]
            )
        return self._doubled[run]

    def _mask(self) -> Mask:
        # ρ uniform as a polynomial is ρ uniform in every slot.
        rho = secret_residues(self._ring.plain_modulus, self._ring.degree)
        slots = self._ring.decode(self._ring.plaintext(self._header, rho))
        return Mask(self._sanitiser.cover(rho), track_sums(slots, self._ring.plain_modulus))


def runs_of(placed: Placed) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """(block, sets in the order of their weights) → slot and first weight of each such run."""
    arrays = (placed.block, placed.slot, placed.weight, placed.set)
    found: list[tuple[int, int, int, list[int]]] = []
    for block, slot, weight, of_set in sorted(zip(*(a.tolist() for a in arrays), strict=True)):
        if found and len(found[-1][3]) < MOST_IN_RUN:
            *place, first, sets = found[-1]
            if (*place, first + len(sets)) == (block, slot, weight):
                sets.append(of_set)
                continue
        found.append((block, slot, weight, [of_set]))
    runs: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for block, slot, weight, sets in found:
        runs.setdefault((block, *sets), []).append((slot, weight))
    return runs


class ReplyMaker:
    """Step 2."""

    def __init__(self, secret: SecretKey) -> None:
        self._ring, self._decryptor = Ring.of(secret.ring), Decryptor(secret)

    def load(self, ciphertext: bytes) -> Ciphertext:
        """A query, or `CiphertextError`."""
        return self._ring.load(ciphertext, 1)

    def reply(self, query: Ciphertext) -> Values:
        """R of each track."""
        return track_sums(self._decryptor.decrypt(query), self._ring.plain_modulus)


def bits_of(
    placed: Placed, offsets: Values, rho: Values, residues: Values, plain_modulus: int
) -> NDArray[np.int8]:
    """Step 3: the answer to each question.  `offsets`: [absent in A] + Σ_k c_k·u_k of each.

    `ProtocolError` if the reply is no sum of the bits that were asked for.
    """
    t = np.uint64(plain_modulus)
    if (residues >= t).any():
        raise ProtocolError("a live reply with values that are none modulo t")
    weight = placed.weight.astype(np.uint64)
    total = residues.astype(np.uint64) + t - rho
    np.add.at(total, placed.track, (offsets.astype(np.uint64) << weight) % t)
    total %= t
    asked = np.zeros(TRACKS, np.uint64)
    np.add.at(asked, placed.track, np.uint64(1) << weight)
    if (total & ~asked).any():
        raise ProtocolError("a live reply that is no sum of the bits asked for")
    return (total[placed.track] >> weight & np.uint64(1)).astype(np.int8)
