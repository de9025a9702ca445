"""What parties send and what a key holder can open of it, in a recorded run.

A function that ends in `_ciphertexts` or takes `answers` finds its message among the answers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from math import log2

import numpy as np
from tests.kit.phase import phase
from tests.kit.recording import Event, record_in
from tests.kit.uniformity import are_uniform_and_fresh, is_uniform

from pv4fad.he.keys import Decryptor, SecretKey
from pv4fad.he.ring import TAG_RING, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.count import bank as count_bank
from pv4fad.protocol.count import steps as count_steps
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.count.state import OwnSums
from pv4fad.protocol.match import steps as match_steps
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
)
from pv4fad.protocol.parameters import digest_of
from pv4fad.protocol.propose.state import NetworkSecret, OwnKeys
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.messages import ScoreQuery, ScoreReply
from pv4fad.protocol.score.state import Totals
from pv4fad.randomness import secret_residues


def envelope(message, size):
    address = message.address
    return (message.kind, address.sender, address.receiver, address.table_id, address.index, size)


def of_kind(answers, kind):
    (found,) = (message for message in answers if isinstance(message, kind))
    return found


def network_key(run, ring: str = "match") -> SecretKey:
    network, parameters = run.world.federation.payment_network, run.world.parameters
    rings = parameters.network_rings | parameters.aggregator_rings
    return run.world.record(network, NetworkSecret, ring).key(rings[ring])


def bank_key(run, name: str) -> SecretKey:
    (bank,) = (one for one in run.world.federation.banks if one.name == name)
    return run.world.record(bank, OwnKeys).secret_key(run.world.parameters.share_ring)


def opened(ciphertexts, secret: SecretKey) -> np.ndarray:
    decryptor = Decryptor(secret)
    return np.stack([decryptor.decrypt(loaded(one, secret)) for one in ciphertexts])


def loaded(data: bytes, secret: SecretKey):
    """A ciphertext of whatever level."""
    ring = Ring.of(secret.ring)
    levels = range(1, ring.parameters.n_data_primes + 1)
    return ring.load(data, [ring.ciphertext_bytes(n) for n in levels].index(len(data)) + 1)


def indicator_ciphertexts(run, answers):
    return of_kind(answers, BlindedIndicators).indicators, network_key(run)


def value_ciphertexts(run, answers):
    return of_kind(answers, MaskedValues).ciphertexts, network_key(run, "tags")


def distance_ciphertexts(run, answers):
    return of_kind(answers, MaskedDistances).ciphertexts, network_key(run, "distances")


def difference_ciphertexts(run, answers):
    return of_kind(answers, MaskedDifferences).ciphertexts, network_key(run, "distances")


def product_ciphertexts(run, answers):
    message = of_kind(answers, MaskedProducts)
    return message.ciphertexts, bank_key(run, message.address.receiver)


def query_ciphertexts(run, answers):
    message = of_kind(answers, ScoreQuery)
    return message.ciphertexts, bank_key(run, message.address.receiver)


def opened_queries(run, answers):
    """Every slot of a query, at a bank."""
    return opened(*query_ciphertexts(run, answers))


def opened_indicators(run, answers):
    """J_m + s′_m in every slot, at the payment network; a bin's own is the sum of its strips.
    Here and in what follows."""
    return opened(*indicator_ciphertexts(run, answers))


def opened_values(run, answers):
    """P(x) + r and L(x) + ρ in every slot, at the payment network."""
    return opened(*value_ciphertexts(run, answers))


def opened_distances(run, answers):
    """h + g in every slot, but for what it adds itself, at the payment network."""
    return opened(*distance_ciphertexts(run, answers))


def opened_differences(run, answers):
    """h′ + g′ in every slot, but for what it adds itself, at the payment network."""
    return opened(*difference_ciphertexts(run, answers))


def opened_products(run, answers):
    """Every slot of every masked product, at a bank."""
    return opened(*product_ciphertexts(run, answers))


def noisy_sums(run, answers):
    """What the aggregator gets from one bank."""
    return of_kind(answers, NoisySums).residues[np.newaxis]


def sums_per_bank(run, answers):
    """V_j + p_j: what payment network and aggregator together know of one bank's sums."""
    v, t = noisy_sums(run, answers), run.world.parameters.plain_modulus
    return (v + own_share_for(run, of_kind(answers, NoisySums).address.sender)) % np.uint64(t)


def own_share_for(run, bank: str) -> np.ndarray:
    """p_j: by how much the payment network's share grew while it served bank j."""
    t = np.uint64(run.world.parameters.plain_modulus)
    mine = [event for event in run.events if event.message.address.sender == bank]
    mine = [event for event in mine if event.receiver.name == PAYMENT_NETWORK]
    mine = [event for event in mine if event.message.address.epoch == 0]  # of training
    before, after = (run.before(event, OwnSums).p for event in (mine[1], mine[-1]))
    return ((after + t - before) % t).ravel()


def answers_of_one_bank(run, answers, asked: list[Event], epoch: int) -> np.ndarray:
    """What payment network and aggregator together could compute of one bank's answers about a
    table; `asked`: the events that sent queries."""
    reply = of_kind(answers, ScoreReply)
    here, parameters = reply.address, run.world.parameters
    (event,) = (
        event
        for event in asked
        for query in event.answers()
        if isinstance(query, ScoreQuery)
        and (query.address.receiver, query.address.table_id) == (here.sender, here.table_id)
    )

    def offsets(records: dict[str, bytes]) -> np.ndarray | int:
        place = (here.table_id, here.index)
        found = record_in(records, parameters.run_id, Totals, *place, epoch=epoch)
        return 0 if found is None else found.totals.astype(np.int64).ravel()

    added = offsets(event.after) - offsets(event.before)
    return (added + reply.residues.astype(np.int64)) % parameters.plain_modulus


def about_broadcast(run) -> list[Event]:
    """Where a bank answers about the broadcast table."""
    return [e for e in run.of(ScoreQuery) if e.message.address.table_id == "broadcast"]


def sent_with(run, kind):
    """The events whose answers carry this kind of message."""
    return [event for event in run.events if any(isinstance(one, kind) for one in event.answers())]


def all_of(run, kind):
    """Every message of a kind that arrived, each in a list, as views take answers."""
    return [[event.message] for event in run.of(kind)]


def noise_is_the_flood(run, ciphertexts, secret: SecretKey, circuit: str) -> bool:
    return fills_flood(ciphertexts, secret, run.world.parameters.bounds[circuit].flood)


def fills_flood(ciphertexts, secret: SecretKey, flood: Flood) -> bool:
    """The phases of every ciphertext fill the range of the flood evenly, in 256 cells.

    Dropping primes rounds: within ten standard deviations of that, the edges are left out.
    The share of the phases between them is what it is of uniform ones.
    """
    ring = Ring.of(secret.ring)
    scale = ring.plain_modulus * float(flood.reach)
    for dropped in ring.primes[flood.n_sent : flood.n_primes]:
        scale /= dropped
    assert ciphertexts
    for one in ciphertexts:
        fractions = (phase(loaded(one, secret), secret).astype(float) / scale + 1) / 2
        blurred = 5 * ring.plain_modulus * np.sqrt(2 / 9 * ring.degree) / scale
        inner = (fractions - blurred) / (1 - 2 * blurred)
        inside = inner[(inner >= 0) & (inner < 1)]
        assert blurred < 0.25
        if len(inside) < 0.95 * (1 - 2 * blurred) * len(inner):
            return False
        if not is_uniform((inside * 2**20).astype(np.int64), 2**20):
            return False
    return True


def returned_ciphertexts(run) -> Counter[bytes]:
    """All ciphertexts of a run that were sent to the holder of their key, by their hash."""
    parameters, found = run.world.parameters, Counter()
    for event in run.events:
        is_network = event.receiver.name == PAYMENT_NETWORK
        of_network = parameters.network_rings | parameters.aggregator_rings
        rings = of_network.values() if is_network else (parameters.share_ring,)
        headers = [
            (ring.header(level, is_evaluated=evaluated), ring.ciphertext_bytes(level))
            for ring in map(Ring.of, rings)
            for level in range(1, ring.parameters.n_data_primes + 1)
            for evaluated in (True, False)
        ]
        values = [getattr(event.message, name) for name in event.message.codecs]
        pieces = [one for value in values for one in (value if type(value) is tuple else [value])]
        for piece in pieces:
            for header, size in headers:
                if type(piece) is bytes and piece.startswith(header):
                    parts = (piece[i : i + size] for i in range(0, len(piece), size))
                    found.update(hashlib.sha256(part).digest() for part in parts)
    return found


def hashes_of(ciphertexts) -> Counter[bytes]:
    return Counter(hashlib.sha256(one).digest() for one in ciphertexts)


def noise_bits_before_flooding(monkeypatch, returned, run, event: Event) -> list[float]:
    """log2 of the noise of each ciphertext that is sanitised while an answer is made anew."""
    made, flooded = [], Sanitiser.flooded

    def noting(self, ciphertext):
        assert self.ring.level_of(ciphertext) == self.flood.n_primes
        made.append(self.ring.load(self.ring.dump(ciphertext), self.flood.n_primes))
        return flooded(self, ciphertext)

    monkeypatch.setattr(Sanitiser, "flooded", noting)
    ciphertexts, secret = returned(run, event.replayed())
    assert len(made) == len(ciphertexts)
    return [Decryptor(secret).phase_bits(one) - log2(secret.ring.plain_modulus) for one in made]


def modulus_of(run, view) -> int:
    """Modulo what the values of a view are."""
    parameters = run.world.parameters
    rings = {
        opened_values: "tags",
        opened_distances: "distances",
        opened_differences: "distances",
    }
    if view in rings:
        return parameters.network_rings[rings[view]].plain_modulus
    return parameters.plain_modulus


def looks_uniform(run, view, *of_events) -> bool:
    """Whether all that a view opens of the answers to one event, or to several, is uniform, with
    no row like another."""
    rows = [view(run, answers) for answers in of_events]
    return are_uniform_and_fresh(np.concatenate(rows), modulus_of(run, view))


def made_anew_looks_uniform(run, view, event: Event) -> bool:
    """Whether answers that are made twice from the same state have nothing in common."""
    both = [view(run, answers)[:1] for answers in (event.answers(), event.replayed())]
    return are_uniform_and_fresh(np.concatenate(both), modulus_of(run, view))


def check_masks_are_new_and_bound(world, made: list[tuple[str, bytes]]) -> int:
    """No context of masks is used twice, all banks use the same ones, and all name the parameters
    of the run; returns how many there are.  `made`: by `spy_on_masks`."""
    contexts, *others = (
        [context for owner, context in made if owner == bank.name]
        for bank in world.federation.banks
    )
    assert len(set(contexts)) == len(contexts)
    assert all(one == contexts for one in others)
    assert all(digest_of(world.parameters) in context for context in contexts)
    return len(contexts)


def no_residues(modulus, n):
    return np.zeros(n, np.uint64)


class NoEveryOther:
    """Of r and ρ, which are drawn one after the other, no r, or no ρ.  What a bin is padded with is
    drawn by the same function, fewer at a time, and remains."""

    def __init__(self, first: bool):
        self._left_out = first

    def __call__(self, modulus, n):
        if n < TAG_RING.degree:
            return secret_residues(modulus, n)
        left_out, self._left_out = self._left_out, not self._left_out
        return no_residues(modulus, n) if left_out else secret_residues(modulus, n)


def none_in_the_last_strip(modulus, n):
    """The others have theirs; a strip has more bins than that."""
    drawn = secret_residues(modulus, n)
    drawn[-1000:] = 0
    return drawn


def no_mask(*_, n, **__):
    return np.zeros(n, np.uint64)


def no_flood(ring, flood):
    return np.zeros((flood.n_primes, ring.degree), np.uint64)


TRAINING_MASKS = {
    "r of the match": (match_steps, "secret_residues", NoEveryOther(True), opened_values),
    "ρ of the match": (match_steps, "secret_residues", NoEveryOther(False), opened_values),
    "g of the match": (match_steps, "secret_residues", no_residues, opened_distances),
    "g′ of the match": (match_steps, "secret_residues", no_residues, opened_differences),
    "s of the match": (match_steps, "secret_residues", no_residues, opened_indicators),
    **{
        f"{what} of the match, in one strip": (
            match_steps,
            "secret_residues",
            none_in_the_last_strip,
            view,
        )
        for what, view in (
            ("r and ρ", opened_values),
            ("g", opened_distances),
            ("g′", opened_differences),
            ("s", opened_indicators),
        )
    },
    "ρ of the count": (
        count_steps,
        "secret_residues",
        no_residues,
        opened_products,
    ),
    "pairwise masks of the sums": (
        count_bank,
        "pairwise_mask",
        no_mask,
        sums_per_bank,
    ),
}
"""By name: where it is drawn, the name there, what leaves it out, and the view that then fails."""
