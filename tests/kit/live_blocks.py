"""Shares of accounts at one bank, some blocks of them, as a match leaves them with S and the bank.

The bank's shares are encrypted here directly; tests of the whole phase have them from a real match.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from tests.kit.match_block import keys_of

from pv4fad.he.keys import KeyPair, SecretEncryptor
from pv4fad.he.one_hot import weight_bits
from pv4fad.he.ring import Ring, share_ring
from pv4fad.protocol.live.plan import TRACKS, bound_of, weights_of
from pv4fad.protocol.live.steps import Placed, Query, QueryMaker, ReplyMaker, bits_of
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.randomness import secret_residues

N_ATOMS = 3
SETS = (AskedSet((1,), absent=False), AskedSet((2,), absent=False), AskedSet((), absent=True))
DEGREE = 8192


@dataclass(frozen=True)
class LiveBlocks:
    modulus: int
    keys: KeyPair
    atoms: np.ndarray  # (blocks, slots): -1 for none
    u: np.ndarray  # (blocks, atoms, slots)
    shares: list[list[bytes]]  # E_j[s_k], [block][atom]

    @property
    def bound(self):
        return bound_of(share_ring(self.modulus), N_ATOMS, len(SETS))

    def maker(self) -> QueryMaker:
        coefficients = [one.coefficients(N_ATOMS).tolist() for one in SETS]
        maker = QueryMaker(self.keys.public, self.bound.flood, coefficients)
        for block in self.shares:
            maker.add_block(block)
        return maker

    def questions(self, n: int, seed: int = 0) -> Placed:
        """At most n, in all blocks and sets; what does not fit a track is left out."""
        rng = np.random.default_rng(seed)
        places = rng.choice(len(self.atoms) * DEGREE * len(SETS), n, replace=False)
        block, rest = np.divmod(places, DEGREE * len(SETS))
        slot, of_set = np.divmod(rest, len(SETS))
        weight = weights_of(slot % TRACKS)
        fit = weight < weight_bits(self.modulus)
        return Placed(block[fit], slot[fit], of_set[fit], weight[fit])

    def true_bits(self, placed: Placed) -> np.ndarray:
        atom = self.atoms[placed.block, placed.slot]
        return (atom == np.array([1, 2, -1])[placed.set]).astype(np.int8)

    def offsets(self, placed: Placed) -> np.ndarray:
        """[absent in A] + Σ_k c_k·u_k."""
        c = np.array([one.coefficients(N_ATOMS) for one in SETS])[placed.set]
        u = self.u[placed.block, :, placed.slot].astype(np.int64)
        absent = np.array([one.absent for one in SETS])[placed.set]
        return ((absent + (c * u).sum(axis=1)) % self.modulus).astype(np.uint32)

    def replies(self, query: Query) -> np.ndarray:
        bank = ReplyMaker(self.keys.secret)
        return bank.reply(bank.load(query.ciphertext))

    def bits(self, placed: Placed, query: Query, replies: np.ndarray) -> np.ndarray:
        return bits_of(placed, self.offsets(placed), query.rho, replies, self.modulus)


@cache
def live_blocks(modulus: int, n_blocks: int = 3) -> LiveBlocks:
    keys = keys_of(share_ring(modulus))
    encryptor, ring = SecretEncryptor(keys.secret), Ring.of(share_ring(modulus))
    rng = np.random.default_rng(modulus)
    atoms = rng.integers(-1, N_ATOMS, (n_blocks, DEGREE))
    s = secret_residues(modulus, n_blocks * N_ATOMS * DEGREE).reshape(n_blocks, N_ATOMS, DEGREE)
    is_atom = atoms[:, np.newaxis] == np.arange(N_ATOMS)[:, np.newaxis]
    u = (s + is_atom) % np.uint64(modulus)
    shares = [[ring.dump(encryptor.encrypt(one)) for one in block] for block in s]
    return LiveBlocks(modulus, keys, atoms, u, shares)
