"""What a bank sees of live queries: uniform slots and the flood, whatever is asked.

Every check is also made with one thing taken away, and must then fail.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.kit.live_blocks import live_blocks
from tests.kit.phase import residues_of
from tests.kit.uniformity import are_uniform_and_fresh, is_uniform
from tests.kit.views import fills_flood, no_flood, no_residues, opened

import pv4fad.he.sanitise
import pv4fad.protocol.live.steps
from pv4fad.he.keys import SecretEncryptor
from pv4fad.he.ring import Ring
from pv4fad.protocol.live.plan import track_sums
from pv4fad.protocol.live.steps import Mask, QueryMaker
from pv4fad.randomness import secret_residues

N_QUERIES = 4


def queries(n_questions: int, maker: QueryMaker | None = None) -> list[bytes]:
    """With the same questions each time."""
    blocks = live_blocks(65537)
    maker = maker or blocks.maker()
    maker.prepare()
    placed = blocks.questions(n_questions)
    return [maker.query(placed).ciphertext for _ in range(N_QUERIES)]


def slots_of(ciphertexts):
    return opened(ciphertexts, live_blocks(65537).keys.secret)


def simulated() -> list[bytes]:
    """Without any question: encryptions of uniform slots, under the same flood."""
    blocks = live_blocks(65537)
    ring, encryptor = Ring.of(blocks.keys.public.ring), SecretEncryptor(blocks.keys.secret)
    sanitiser = pv4fad.he.sanitise.Sanitiser(blocks.keys.public, blocks.bound.flood)
    return [
        sanitiser.sanitise(encryptor.encrypt(secret_residues(65537, ring.degree)))
        for _ in range(N_QUERIES)
    ]


@pytest.mark.parametrize("n_questions", [0, 1, 100, 1000])
def test_what_the_bank_opens_is_uniform_and_fresh_whatever_is_asked(n_questions):
    made = queries(n_questions)
    assert are_uniform_and_fresh(slots_of(made), 65537)
    assert fills_flood(made, live_blocks(65537).keys.secret, live_blocks(65537).bound.flood)
    assert {len(one) for one in made} == {len(one) for one in simulated()}


def test_the_simulator_makes_what_the_bank_sees():
    made = simulated()
    assert are_uniform_and_fresh(slots_of(made), 65537)
    assert fills_flood(made, live_blocks(65537).keys.secret, live_blocks(65537).bound.flood)


def test_the_second_polynomial_of_queries_with_the_same_questions_has_nothing_in_common():
    """c1 of D is known to the bank: without Enc(0) it would tell the masks of slots."""
    blocks = live_blocks(65537)
    ring = Ring.of(blocks.keys.public.ring)
    first, *others = (residues_of(ring.load(one, 1), ring)[1, 0] for one in queries(50))
    q = ring.primes[0]
    for other in others:
        difference = (first.astype(object) - other.astype(object)) % q
        scaled = (difference.astype(float) / q * 2**20).astype(np.int64)
        assert is_uniform(np.clip(scaled, 0, 2**20 - 1), 2**20)


def test_without_rho_the_check_above_fails(monkeypatch):
    monkeypatch.setattr(pv4fad.protocol.live.steps, "secret_residues", no_residues)
    assert not are_uniform_and_fresh(slots_of(queries(100)), 65537)


def test_without_the_flood_the_check_above_fails(monkeypatch):
    monkeypatch.setattr(pv4fad.he.sanitise, "flood_residues", no_flood)
    blocks = live_blocks(65537)
    assert not fills_flood(queries(100), blocks.keys.secret, blocks.bound.flood)


class Stingy(QueryMaker):
    """Puts masks back after use."""

    def query(self, placed):
        ring = self._ring
        kept = [(ring.dump(mask.ciphertext), mask.rho) for mask in self._masks]
        made = super().query(placed)
        self._masks.extend(Mask(ring.load(data, 2), rho) for data, rho in kept)
        return made


def test_with_a_mask_that_is_used_twice_the_check_above_fails():
    blocks = live_blocks(65537)
    maker = blocks.maker()
    maker.__class__ = Stingy
    assert not are_uniform_and_fresh(slots_of(queries(100, maker)), 65537)


def test_what_the_payment_network_gets_follows_from_the_bits():
    """Its simulator: R from the bits, its own shares and its own ρ, and nothing else."""
    blocks = live_blocks(65537)
    placed = blocks.questions(300, 3)
    query = blocks.maker().query(placed)
    bits, offsets = blocks.true_bits(placed).astype(np.int64), blocks.offsets(placed)
    parts = np.zeros(64, np.int64)
    np.add.at(parts, placed.track, (bits - offsets.astype(np.int64)) << placed.weight)
    simulated_reply = (parts + query.rho.astype(np.int64)) % 65537
    assert np.array_equal(simulated_reply, blocks.replies(query))


def test_tracks_add_up_every_64th_slot():
    values = np.arange(8192, dtype=np.uint64)
    wanted = [sum(range(track, 8192, 64)) % 65537 for track in range(64)]
    assert track_sums(values, 65537).tolist() == wanted
