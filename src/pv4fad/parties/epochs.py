"""Matches and batches after training: each has a number, its epoch, and one is made at a time.

The payment network begins a new epoch only when the last one is over.  So a party that
meets the first message of an epoch knows that all it sent in the one before has arrived, and
forgets it; what comes later from an epoch that is over is refused.  Epoch 0 is training.
"""

from __future__ import annotations

from dataclasses import dataclass

from pv4fad.errors import OrderError
from pv4fad.parties.party import LastMessage
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.state import ScoreSum
from pv4fad.protocol.wire import Message, message_id
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Transaction


@dataclass(frozen=True)
class LatestEpoch(Record):
    """The latest match or batch that a bank or the aggregator has met."""

    epoch: int


def is_behind(message: Message, training: Records) -> bool:
    """Whether a message belongs to a match or batch that is over here."""
    return message.address.epoch < _latest(training)


def enter_epoch(message: Message, training: Records) -> None:
    """A message of the latest epoch, or of a new one, which ends the one before."""
    epoch, latest = message.address.epoch, _latest(training)
    if epoch < latest:
        raise OrderError(f"{message_id(message)}: match or batch {epoch} is over")
    if epoch == latest:
        return
    if latest == 0:
        last_of_training = training.find(LastMessage, PAYMENT_NETWORK)
        if last_of_training is not None:
            training.tx.acknowledge(last_of_training.message_id)
    else:
        forget_messages(training.run_id, latest, training.tx)
        training.of_epoch(latest).delete(LastMessage, ScoreSum)
    training.put(LatestEpoch(epoch))


def forget_messages(run_id: str, epoch: int, tx: Transaction) -> None:
    """Drop the journal of an epoch: nothing of it will be sent or asked for again."""
    # The epoch is the third part of a message's id.
    tx.prune(f"{run_id}/", lambda name: name.split("/")[2] == str(epoch))


def _latest(training: Records) -> int:
    noted = training.find(LatestEpoch)
    return 0 if noted is None else noted.epoch
