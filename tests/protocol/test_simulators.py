"""Simulators of the ideal functionality (protocol.md §9): views from the ideal outputs alone.

`Train` gives the payment network noisy counts, `Ask` gives it bits; all others get sizes.  A
simulator has a party's own input, its own random numbers and the ideal output, and must produce
what the party really receives:

    payment network   its messages hold nothing beyond u, uniform, and values that follow from its
                      own masks and the ideal output: compared exactly, slot by slot
    bank, aggregator  everything is uniform: compared with a view drawn without any data
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kit.recording import record_in
from tests.kit.round_recording import (
    ASKED,
    queries_sent,
    questions_of,
    recorded,
)
from tests.kit.uniformity import is_uniform
from tests.kit.views import (
    envelope,
    noisy_sums,
    of_kind,
    opened_products,
    opened_queries,
    sent_with,
)

from pv4fad.he.keys import Encryptor, Evaluator, PublicKey
from pv4fad.he.ring import Ring
from pv4fad.he.sanitise import Sanitiser
from pv4fad.protocol.count.messages import MaskedProducts, NoisyCounts, NoisySums
from pv4fad.protocol.count.state import OwnSums
from pv4fad.protocol.match.state import PlacedTable
from pv4fad.protocol.propose.state import OwnKeys
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.messages import ScoreQuery, ScoreReply
from pv4fad.protocol.score.state import Totals
from pv4fad.randomness import secret_residues


@pytest.fixture(scope="module")
def run():
    return recorded(1)


def test_what_the_payment_network_gets_in_training_follows_from_the_noisy_counts(run):
    """V = count − p: the simulator of `Train` needs the noisy counts and the own share p."""
    parameters = run.world.parameters
    (event,) = run.of(NoisyCounts)
    p = run.before(event, OwnSums).p.astype(np.int64)
    ideal = run.world.true_counts() + run.injected.reshape(p.shape)
    simulated = (ideal - p) % parameters.plain_modulus
    assert np.array_equal(event.message.residues, simulated.ravel().astype(np.uint64))


def test_what_the_payment_network_gets_in_a_round_follows_from_the_bits(run):
    """R = bit − (own part): slots that ask nothing, and absent and unknown accounts, included."""
    world, parameters = run.world, run.world.parameters
    t = parameters.plain_modulus
    asked = questions_of(world)
    bit_of = dict(zip(asked.tolist(), world.true_bits(asked, ASKED).tolist(), strict=True))
    replies = [
        event.message for event in run.of(ScoreReply) if event.receiver.name == PAYMENT_NETWORK
    ]
    assert {one.address.table_id for one in replies} == {"bank01", "bank02", "broadcast"}
    for reply in replies:
        table_id = reply.address.table_id
        own = own_part(run, table_id)
        table = world.record(world.federation.payment_network, PlacedTable, table_id)
        ideal = np.zeros(len(own), np.int64)
        for key, place in zip(table.keys, table.bins, strict=True):
            ideal[place] = bit_of.get(int(key), 0)
        simulated = (ideal - own) % t
        assert np.array_equal(reply.residues.astype(np.int64), simulated)


def own_part(run, table_id: str) -> np.ndarray:
    """What the payment network added up for a table from its own values, before any answer."""
    run_id = run.world.parameters.run_id
    parts = [
        _totals(event.after, run_id, table_id) - _totals(event.before, run_id, table_id)
        for event in queries_sent(run)
        for query in event.answers()
        if isinstance(query, ScoreQuery) and query.address.table_id == table_id
    ]
    assert parts
    return np.asarray(sum(parts))


def _totals(records: dict[str, bytes], run_id: str, table_id: str) -> np.ndarray | int:
    found = record_in(records, run_id, Totals, table_id, 0, epoch=1)
    return 0 if found is None else found.totals.astype(np.int64).ravel()


# Banks and aggregator: a view that is drawn without any data.


def simulated_bank_view(run, message) -> list[bytes]:
    """Sanitised encryptions of uniform slots under the bank's key, as many as the message has."""
    parameters = run.world.parameters
    (bank,) = (one for one in run.world.federation.banks if one.name == message.address.receiver)
    keys = run.world.record(bank, OwnKeys)
    public = PublicKey(parameters.share_ring, keys.name, keys.public)
    ring = Ring.of(parameters.share_ring)
    sanitiser = Sanitiser(public, parameters.bounds["linear"].flood)
    made = []
    for _ in message.ciphertexts:
        ciphertext = Encryptor(public).zero(parameters.bounds["linear"].flood.n_primes)
        Evaluator(public).add_slots(ciphertext, secret_residues(ring.plain_modulus, ring.degree))
        made.append(sanitiser.sanitise(ciphertext))
    return made


@pytest.mark.parametrize(
    ("kind", "view"), [(MaskedProducts, opened_products), (ScoreQuery, opened_queries)]
)
def test_a_banks_view_looks_like_one_that_was_drawn_without_data(run, kind, view):
    """Equal sizes, and slots as uniform as drawn ones."""
    t = run.world.parameters.plain_modulus
    for event in sent_with(run, kind)[:2]:
        message = of_kind(event.answers(), kind)
        simulated = simulated_bank_view(run, message)
        assert [len(one) for one in simulated] == [len(one) for one in message.ciphertexts]
        answer = replace(message, ciphertexts=tuple(simulated))
        both = [view(run, [one]).astype(np.int64) for one in (message, answer)]
        for rows in both:
            assert is_uniform(rows, t)
        assert envelope(message, 0) == envelope(answer, 0)


def test_the_aggregators_view_looks_like_one_that_was_drawn_without_data(run):
    """What it gets from the banks, in training and about the broadcast table."""
    t = run.world.parameters.plain_modulus
    received = [noisy_sums(run, event.answers()).ravel() for event in sent_with(run, NoisySums)]
    received += [event.message.residues for event in run.of(ScoreReply, "aggregator")]
    assert len(received) == 4
    for values in received:
        assert is_uniform(values, t)
    # One bank's values say nothing about another's: their difference is uniform as well.
    for first, second in (received[:2], received[2:]):
        assert is_uniform((first.astype(np.int64) - second.astype(np.int64)) % t, t)
