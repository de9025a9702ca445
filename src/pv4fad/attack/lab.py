"""Banks and the aggregator as attackers: can they tell two worlds apart?

Two small federations with the same public sizes.  In the one, the payment network's accounts are
those of the banks, all in one cell, and it asks about all of them; in the other, no bank has any of
them, they are spread over the cells, and nothing is asked.  Everything that a bank or the
aggregator can open of its messages is collected, with real keys.  An attacker who has seen half of
the runs with the answer guesses the worlds of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from pv4fad.attack.findings import Finding, chance_of_half
from pv4fad.errors import ParameterError
from pv4fad.evidence.cells import CountedAccounts, n_cells
from pv4fad.evidence.classes import counted_sets
from pv4fad.he.keys import Decryptor
from pv4fad.he.ring import Ring
from pv4fad.lead.evidence_model import cell_counts
from pv4fad.lead.simulate import simulate
from pv4fad.parties.in_process import Endpoint, InProcessTransport
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, run_parameters
from pv4fad.protocol.propose.state import OwnKeys
from pv4fad.protocol.score.inputs import AskedSet, Round
from pv4fad.protocol.score.messages import ScoreQuery
from pv4fad.protocol.tables import assign_tables
from pv4fad.protocol.wire import decode
from pv4fad.store.records import stored
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool

ACCOUNTS = 60
BANKS = {"AAAADE01": "bank01", "AAAADE02": "bank02"}
_BINS = 16
_ANYTHING = "anything about {{rows}}: {}"


@dataclass
class Seen:
    """What a party could open, and the kinds and sizes of its messages."""

    residues: list[NDArray[np.float64]] = field(default_factory=list, repr=False)
    """As shares of t."""
    messages: list[tuple[str, str, int]] = field(default_factory=list)
    """Kind, sender, size."""

    @property
    def by_sender(self) -> frozenset[tuple[str, tuple[tuple[str, int], ...]]]:
        """Kinds and sizes in the order of each sender; who of two comes first is chance."""
        senders = {sender for _, sender, _ in self.messages}
        return frozenset(
            (one, tuple((kind, size) for kind, sender, size in self.messages if sender == one))
            for one in senders
        )

    @property
    def values(self) -> NDArray[np.float64]:
        return np.concatenate([*self.residues, np.empty(0)])


@dataclass(frozen=True)
class _Listener:
    """A party, and what it sees."""

    party: Endpoint
    store: Store
    parameters: RunParameters
    seen: Seen

    def handle(self, data: bytes) -> list[bytes]:
        message, t = decode(data), self.parameters.plain_modulus
        self.seen.messages.append((message.kind, message.address.sender, len(data)))
        match message:
            case MaskedProducts() | ScoreQuery():
                secret = stored(self.store, self.parameters.run_id, OwnKeys).secret_key(
                    self.parameters.share_ring
                )
                ring, opener = Ring.of(secret.ring), Decryptor(secret)
                opened = [opener.decrypt(ring.load(one, 1)) for one in message.ciphertexts]
                self.seen.residues.append(np.concatenate(opened) / t)
            case NoisySums():
                self.seen.residues.append(message.residues / t)
        return self.party.handle(data)


def run_world(is_second: bool, pool: WorkerPool) -> dict[str, Seen]:
    """Train, then ask; what everybody but the payment network has seen."""
    held = [b"%06d" % number for number in range(ACCOUNTS)]
    other = [b"%06d" % number for number in range(ACCOUNTS, 2 * ACCOUNTS)]
    mine = other if is_second else held
    keys = [(bic, one.decode()) for bic in BANKS for one in mine]
    cells, n = n_cells(SCHEMA.n_sides), len(keys)
    numbers = np.arange(n)
    counted = CountedAccounts(
        numbers % cells if is_second else np.zeros(n, np.int64), numbers, numbers, cells
    )
    sets = counted_sets("fine", "class", len(SCHEMA.record.kind_names))
    data = TrainingInput(
        cell_counts(counted), (sets,) * cells, assign_tables(keys, BANKS, 1, broadcast=False)
    )
    parameters = run_parameters(
        data,
        dict.fromkeys(BANKS.values(), ACCOUNTS),
        SCHEMA,
        bound=1,
        epsilon="none",  # whatever the noise is, banks and aggregator must see nothing
        noise="none",
        honest_banks=1,
        mode="counts",
        counted="fine",
        absent="class",
    )
    classes = np.arange(ACCOUNTS) % len(SCHEMA.record.classes)
    records = {
        bank: BankRecords(
            tuple(f"{bic}|".encode() + one for one in held),
            tuple(held),
            classes.astype(np.int16),
            SCHEMA,
            "lab",
        )
        for bic, bank in BANKS.items()
    }
    federation = simulate(records, pool, first_limit="none")
    parties = (*federation.banks, federation.aggregator)
    listening = {one.name: _Listener(one, one.store, parameters, Seen()) for one in parties}
    network = federation.payment_network
    transport = InProcessTransport({network.name: network, **listening}, pool)
    transport.deliver(network.name, network.propose(parameters, data))
    asked = [] if is_second else keys
    questions = Round(asked, (AskedSet((1, 2), True),), np.zeros(len(asked), np.int64))
    _, queries = network.score(parameters.run_id, questions)
    transport.deliver(network.name, queries)
    return {name: listener.seen for name, listener in listening.items()}


def lab_findings(
    n_runs: int, pool: WorkerPool, advance: Callable[[], None] = lambda: None
) -> tuple[Finding, ...]:
    """`n_runs` of each world, at least 2."""
    if n_runs < 2:
        raise ParameterError(f"worlds {n_runs}: give at least 2, or 0 for none")
    runs: dict[bool, list[dict[str, Seen]]] = {False: [], True: []}
    for _ in range(n_runs):
        for is_second in (False, True):
            runs[is_second].append(run_world(is_second, pool))
            advance()
    return (
        *_about("holders", [one[bank] for one in runs[False] for bank in BANKS.values()],
                [one[bank] for one in runs[True] for bank in BANKS.values()]),
        *_about("aggregator", [one["aggregator"] for one in runs[False]],
                [one["aggregator"] for one in runs[True]]),
    )  # fmt: skip


def _about(attacker: str, first: list[Seen], second: list[Seen]) -> tuple[Finding, ...]:
    everything = np.concatenate([one.values for one in (*first, *second)])
    guesses = _guesses(first, second)
    chance = chance_of_half(len(guesses))
    return tuple(
        Finding.model_validate({"attacker": attacker, "target": _ANYTHING.format(how)} | entries)
        for how, entries in {
            "messages that differ": {
                "measure": "different orders of kinds and sizes, besides the first",
                "found": len({one.by_sender for one in (*first, *second)}) - 1,
                "allowed": 0,
                "n": len(first) + len(second),
            },
            "two worlds told apart": {
                "measure": "right guesses, where half are right by chance",
                "found": float(guesses.mean()),
                "guess": 0.5,
                "allowed": None if chance >= 1 else chance,
                "n": len(guesses),
                "note": "too few to test a claim: see --worlds" if chance >= 1 else "",
            },
            "values that are not uniform": {
                "measure": "1 − p of a chi-square test",
                "found": 1 - uniformity(everything),
                "guess": 0.5,
                "allowed": 1 - 1e-6,
                "n": len(everything),
            },
        }.items()
    )


def _features(seen: Seen) -> NDArray[np.float64]:
    counts = np.histogram(seen.values, _BINS, (0, 1))[0]
    return np.asarray(counts / max(counts.sum(), 1))


def _guesses(first: list[Seen], second: list[Seen]) -> NDArray[np.bool_]:
    """Which world a run is of, by the nearer mean of those that were shown."""
    half = max(1, len(first) // 2)
    means = [np.mean([_features(one) for one in runs[:half]], axis=0) for runs in (first, second)]
    found = []
    for world, runs in enumerate((first, second)):
        for one in runs[half:]:
            away = [float(np.square(_features(one) - mean).sum()) for mean in means]
            found.append((away[1] < away[0]) == (world == 1))
    return np.array(found, np.bool_)


def uniformity(shares: NDArray[np.float64]) -> float:
    """p of a chi-square test: small if these are not uniform in [0, 1)."""
    counts = np.histogram(shares, _BINS, (0, 1))[0]
    expected = counts.sum() / _BINS
    return float(chi2.sf(np.square(counts - expected).sum() / expected, _BINS - 1))
