"""A recorded run of the default model: training, then a round of questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from tests.kit.class_world import ONE, ClassWorld, make_class_world
from tests.kit.recording import Event, Recording, record
from tests.kit.views import sent_with
from tests.kit.world import KnownNoiseBank

from pv4fad.protocol.score.inputs import AskedSet, Round
from pv4fad.protocol.score.messages import ScoreQuery
from pv4fad.protocol.wire import Message, decode

ASKED = AskedSet((1, 2), True)
BATCH = 1


def world_with_noise(seed: int) -> tuple[ClassWorld, np.ndarray]:
    """Two banks, a table for each and a broadcast table, with noise that the test knows."""
    world = make_class_world(
        seed, mode="mixed", epsilon=ONE, honest_banks=2, bank_class=KnownNoiseBank
    )
    rng = np.random.default_rng(seed)
    noise = rng.integers(-20, 21, (2, world.parameters.sizes.n_sums))
    for bank, share in zip(world.federation.banks, noise, strict=True):
        bank.chosen_noise = share
    return world, noise.sum(axis=0)


def questions_of(world: ClassWorld) -> np.ndarray:
    """Every second account: both tables have slots that ask and slots that do not."""
    return np.arange(0, len(world.keys), 2)


@dataclass(frozen=True)
class Begun(Event):
    """The payment network begins a round: no message, but queries in answer."""

    questions: Round = field(repr=False)
    run_id: str

    def replayed(self) -> list[Message]:
        return [decode(one) for one in self.party().score(self.run_id, self.questions)[1]]


@dataclass
class RecordedRound(Recording):
    """A training, and a round of questions."""

    begun: Begun = field(init=False)


@cache
def recorded(seed: int) -> RecordedRound:
    """Training, then a round of questions."""
    recording = RecordedRound(*world_with_noise(seed))
    record(recording)
    world = recording.world
    world.train()
    network, run_id, asked = (
        world.federation.payment_network,
        world.parameters.run_id,
        questions_of(world),
    )
    questions, before = world.round(asked, ASKED), network.store.snapshot()
    batch, queries = network.score(run_id, questions)
    assert batch == BATCH
    after = network.store.snapshot()
    recording.begun = Begun(b"", Message, network, before, after, queries, questions, run_id)
    world.federation.deliver(queries)
    assert np.array_equal(network.bits(run_id, batch), world.true_bits(asked, ASKED))
    return recording


def queries_sent(run: RecordedRound) -> list[Event]:
    """Where the payment network sends a query: when it begins, and after an answer."""
    return [run.begun, *sent_with(run, ScoreQuery)]
