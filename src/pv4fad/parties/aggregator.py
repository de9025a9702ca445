"""The aggregator: adds up what the banks mask (protocol.md §5), compares what it cannot open (§11).

Holds nothing of its own.  Learns public sizes only: all it receives is uniform or a ciphertext.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pv4fad.parties.epochs import enter_epoch, is_behind
from pv4fad.parties.party import Party
from pv4fad.protocol.checks import expect, out_of_order
from pv4fad.protocol.compare.aggregator import blind_sums, compare_block, send_masks
from pv4fad.protocol.compare.messages import EncryptedDigits
from pv4fad.protocol.count.aggregator import add_sums
from pv4fad.protocol.count.messages import NoisyCounts, NoisySums
from pv4fad.protocol.count.state import SumsSoFar
from pv4fad.protocol.propose.aggregator import join
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.receipt import receipt_of
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.aggregator import add_answer, meter
from pv4fad.protocol.score.messages import MeteredReply, OwnPart, ScoreReply
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Message
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Transaction


@dataclass(frozen=True)
class Collecting:
    """Waiting for the noisy sums of the banks that are not yet in `received`."""

    received: tuple[str, ...]


@dataclass(frozen=True)
class Comparing:
    """Blinded sums sent; `done` blocks of leaves compared."""

    done: int


@dataclass(frozen=True)
class Finished:
    """Counts sent on, or all labels shared."""


@dataclass(frozen=True)
class AggregatorStage(Record):
    """How far a run is."""

    now: Collecting | Comparing | Finished


class Aggregator(Party):
    """A of the protocol."""

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        run = Records(tx, message.address.run_id)
        if not isinstance(message, ScoreReply | OwnPart | MeteredReply):
            expect(message.address.epoch == 0, message, "training is epoch 0")
        kept = run.find(AggregatorStage)
        match kept and kept.now, message:
            case None, RunProposal():
                join(message, run)
                run.put(AggregatorStage(Collecting(())))
                return [receipt_of(message)]
            case Collecting(received), NoisySums():
                return self._collect(message, run, received)
            case Comparing(done), EncryptedDigits():
                return self._compare(message, run, done)
            case Finished(), ScoreReply() | OwnPart() | MeteredReply():
                if is_behind(message, run):
                    return []  # sent again by a party that cannot know that it had arrived
                enter_epoch(message, run)
                batch = run.of_epoch(message.address.epoch)
                if isinstance(message, ScoreReply):
                    return add_answer(message, batch)
                return meter(message, batch, datetime.now(UTC).date().isoformat())
            case stage, _:
                raise out_of_order(message, stage)

    def _collect(
        self, message: NoisySums, run: Records, received: tuple[str, ...]
    ) -> Iterable[Message]:
        v, parameters = add_sums(message, received, run), parameters_of(run)
        received = (*received, message.address.sender)
        if len(received) < len(parameters.banks):
            run.put(AggregatorStage(Collecting(received)))
            return []
        if parameters.mode == "counts":
            # Nothing needs the sum again; with the payment network's records it tells the counts.
            run.delete(SumsSoFar)
            run.put(AggregatorStage(Finished()))
            return [NoisyCounts(message.address.onward(PAYMENT_NETWORK), v)]
        run.put(AggregatorStage(Comparing(0)))
        return [blind_sums(v, message.address, run)]

    def _compare(self, message: EncryptedDigits, run: Records, done: int) -> Iterable[Message]:
        shared = compare_block(message, done, run, self.pool)
        if done + 1 < parameters_of(run).n_leaf_blocks:
            run.put(AggregatorStage(Comparing(done + 1)))
            return [shared]
        run.put(AggregatorStage(Finished()))
        return [shared, *send_masks(message.address, run)]
