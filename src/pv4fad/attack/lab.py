"""Banks and the aggregator as attackers: can they tell two worlds apart?

Small federations of two worlds (`worlds`) run with real keys.  Everything that a bank or the
aggregator can open of its messages is collected.  An attacker who has seen some of the runs with
the answer guesses the worlds of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.attack.findings import Finding, NotLead, most_by_chance
from pv4fad.attack.stores import Values, not_uniform
from pv4fad.attack.worlds import BANKS, Like
from pv4fad.errors import ParameterError
from pv4fad.he.keys import Decryptor
from pv4fad.he.ring import Ring
from pv4fad.lead.simulate import simulate
from pv4fad.parties.in_process import Endpoint, InProcessTransport
from pv4fad.protocol.compare.messages import LabelMasks
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.state import OwnKeys
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.protocol.score.messages import (
    BlindedSetShares,
    MeteredReply,
    OwnPart,
    ScoreQuery,
    ScoreReply,
)
from pv4fad.protocol.wire import Message, decode
from pv4fad.schema import Schema
from pv4fad.store.records import stored
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool

WORLDS = 12
"""Of each, by default: with 2 of them shown, 20 guesses of the aggregator are left, which are all
right by chance once in a million times."""
_SHOWN = 6  # of so many runs one is shown with the answer
_BINS = 16
_ANYTHING = "anything about {{rows}}: {}"


@dataclass
class Seen:
    """What a party could open, and the kinds and sizes of its messages."""

    opened: dict[str, list[Values]] = field(default_factory=lambda: defaultdict(list), repr=False)
    """By the kind of message."""
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
    def values(self) -> list[Values]:
        return [one for kind in self.opened.values() for one in kind]


@dataclass(frozen=True)
class _Listener:
    """A party, and what it sees."""

    party: Endpoint
    store: Store
    parameters: RunParameters
    seen: Seen
    _added: dict[tuple[str, str, int], NDArray[np.uint64]] = field(default_factory=dict, repr=False)

    def handle(self, data: bytes) -> list[bytes]:
        message = decode(data)
        self.seen.messages.append((message.kind, message.address.sender, len(data)))
        self._look(message)
        return self.party.handle(data)

    def _look(self, message: Message) -> None:
        t, opened = self.parameters.plain_modulus, self.seen.opened[message.kind]
        match message:
            case MaskedProducts() | ScoreQuery() | BlindedSetShares():
                secret = stored(self.store, self.parameters.run_id, OwnKeys).secret_key(
                    self.parameters.share_ring
                )
                ring, opener = Ring.of(secret.ring), Decryptor(secret)
                opened += [opener.decrypt(ring.load(one, 1)) / t for one in message.ciphertexts]
            case LabelMasks() | OwnPart() | MeteredReply():
                opened.append(message.residues / t)
            case NoisySums() | ScoreReply():
                opened.append(message.residues / t)
                self._add_up(message)

    def _add_up(self, message: NoisySums | ScoreReply) -> None:
        """In the sum of all banks their masks cancel out."""
        here = (message.kind, message.address.table_id, message.address.index)
        before = self._added.get(here, np.uint64(0))
        total = (message.residues.astype(np.uint64) + before) % np.uint64(
            self.parameters.plain_modulus
        )
        self._added[here] = total
        self.seen.opened[f"{message.kind}, added up"] = [
            one / self.parameters.plain_modulus
            for (kind, _, _), one in self._added.items()
            if kind == message.kind
        ]


def run_world(like: Like, *, is_second: bool, pool: WorkerPool) -> dict[str, Seen]:
    """Train, then ask; what everybody but the payment network has seen."""
    world = like.world(is_second=is_second)
    parameters = world.parameters
    federation = simulate(world.records, pool, first_limit="none")
    parties = (*federation.banks, federation.aggregator)
    listening = {one.name: _Listener(one, one.store, parameters, Seen()) for one in parties}
    network = federation.payment_network
    transport = InProcessTransport({network.name: network, **listening}, pool)
    transport.deliver(network.name, network.propose(parameters, world.training))
    _, queries = network.score(parameters.run_id, world.questions)
    transport.deliver(network.name, queries)
    return {name: listener.seen for name, listener in listening.items()}


def lab_findings(
    schema: Schema,
    parameters: RunParameters,
    n_runs: int,
    pool: WorkerPool,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Finding, ...]:
    """`n_runs` of each world, at least 2, like a run with these parameters."""
    if n_runs < 2:
        raise ParameterError(f"worlds {n_runs}: give at least 2, or 0 for none")
    like = Like(schema, parameters)
    runs: dict[bool, list[dict[str, Seen]]] = {False: [], True: []}
    for _ in range(n_runs):
        for is_second in (False, True):
            runs[is_second].append(run_world(like, is_second=is_second, pool=pool))
            advance()
    attackers: tuple[tuple[NotLead, Sequence[str]], ...] = (
        ("holders", list(BANKS.values())),
        ("aggregator", [AGGREGATOR]),
    )
    return tuple(
        finding
        for attacker, parties in attackers
        for finding in about(
            attacker,
            *([[one[name] for name in parties] for one in runs[world]] for world in (False, True)),
        )
    )


def about(
    attacker: NotLead, first: list[list[Seen]], second: list[list[Seen]]
) -> tuple[Finding, ...]:
    """`first`, `second`: of each run of a world, what each of these parties has seen."""
    every = [one for run in (*first, *second) for one in run]
    guesses = _guesses(first, second)
    allowed = most_by_chance(len(guesses))
    values = [one for seen in every for one in seen.values]
    return (
        Finding(
            attacker=attacker,
            target=_ANYTHING.format("messages that differ"),
            measure="different orders of kinds and sizes, besides the first",
            found=len({one.by_sender for one in every}) - 1,
            allowed=0,
            n=len(every),
        ),
        Finding(
            attacker=attacker,
            target=_ANYTHING.format("two worlds told apart"),
            measure="right guesses, where half are right by chance",
            found=float(guesses.mean()),
            guess=0.5,
            allowed=allowed,
            n=len(guesses),
            note="too few to judge: see --worlds" if allowed is None else "",
        ),
        not_uniform(attacker, _ANYTHING.format("values that are not uniform"), values),
    )


def _features(seen: Seen, kinds: Collection[str]) -> Values:
    """How the values of each kind of message are distributed, in deviations from uniform."""
    features = []
    for kind in kinds:
        values = np.concatenate([*seen.opened.get(kind, ()), np.empty(0)])
        counts = np.histogram(values, _BINS, (0, 1))[0]
        expected = max(len(values), 1) / _BINS
        features.append((counts - expected) / np.sqrt(expected))
    return np.concatenate([*features, np.empty(0)])


def _guesses(first: list[list[Seen]], second: list[list[Seen]]) -> NDArray[np.bool_]:
    """Whether it guesses each world right, by the nearer mean of those that were shown."""
    shown = max(1, len(first) // _SHOWN)
    every = [one for run in (*first, *second) for one in run]
    kinds = sorted({kind for one in every for kind, values in one.opened.items() if values})
    features = [
        [[_features(one, kinds) for one in run] for run in runs] for runs in (first, second)
    ]
    means = [np.mean([one for run in runs[:shown] for one in run], axis=0) for runs in features]
    found = [
        (np.square(one - means[1 - world]).sum() > np.square(one - means[world]).sum())
        for world, runs in enumerate(features)
        for run in runs[shown:]
        for one in run
    ]
    return np.array(found, np.bool_)
