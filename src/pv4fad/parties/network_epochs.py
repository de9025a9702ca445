"""The payment network's matches and batches: which one is under way, what is forgotten and when.

What it sends is stored as the reply to the message that set it off.  Where that came from another
party, as in the first message to the next bank, it is forgotten when its receiver has answered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pv4fad.errors import OrderError
from pv4fad.parties.epochs import forget_messages
from pv4fad.parties.network_stages import Matched, Scored, stage_of
from pv4fad.protocol.match.network import JOIN
from pv4fad.protocol.match.state import MatchesInForce
from pv4fad.protocol.score.state import (
    EncryptedLabelShares,
    KnownBits,
    LabelSharesKept,
    SetMasks,
    SetSharesKept,
)
from pv4fad.protocol.wire import Message, message_id
from pv4fad.store.records import Record, Records


@dataclass(frozen=True)
class SentAfter(Record):
    """The message in reply to which a party was sent what it has not answered yet; for each."""

    message_id: str


def note_sent(run: Records, message: Message, replies: Sequence[Message]) -> None:
    """What is sent to one party waits for its answer; what is sent to several, for the end of the
    match or batch."""
    if len(replies) == 1:
        run.put(SentAfter(message_id(message)), replies[0].address.receiver)


def acknowledge_sent(run: Records, message: Message) -> None:
    """An answer proves that what it answers has arrived: drop its bytes."""
    sent = run.find(SentAfter, message.address.sender)
    if sent is not None:
        run.tx.acknowledge(sent.message_id)
        run.delete_at(SentAfter, message.address.sender)


@dataclass(frozen=True)
class LastEpoch(Record):
    """The number of the latest match or batch."""

    epoch: int


def last_epoch(training: Records) -> int:
    """The number of the latest match or batch; 0 if there was none since training."""
    noted = training.find(LastEpoch)
    return 0 if noted is None else noted.epoch


def epoch_under_way(training: Records) -> int | None:
    """The match or batch that is not over yet; one at a time."""
    epoch = last_epoch(training)
    return epoch if epoch and not is_over(training, epoch) else None


def is_over(training: Records, epoch: int) -> bool:
    """Whether a match or batch has ended; one whose records are gone has."""
    stage = stage_of(training.of_epoch(epoch))
    return epoch <= last_epoch(training) and (stage is None or isinstance(stage, Matched | Scored))


def new_epoch(training: Records) -> int:
    """The number of a match or batch that begins."""
    epoch = epoch_under_way(training)
    if epoch is not None:
        raise OrderError(f"match or batch {epoch} is not over yet: carry on with that one first")
    epoch = last_epoch(training) + 1
    training.put(LastEpoch(epoch))
    return epoch


def close_epoch(training: Records, epoch: int) -> None:
    """Forget a match or batch, whatever its state; a match in force cannot be given up any more."""
    if epoch not in training.get(MatchesInForce).epochs:
        training.of_epoch(epoch).delete_all()
        forget_messages(training.run_id, epoch, training.tx)


def forget_all_but(in_force: Collection[int], training: Records) -> None:
    """Forget the matches that are not in force.

    Of training itself the model stays; what the join and its keys consist of, and what has been
    learnt with them, does not.
    """
    for old in training.epochs() - set(in_force):
        training.of_epoch(old).delete_all()
    if 0 not in in_force:
        training.delete(
            *JOIN, SetMasks, SetSharesKept, EncryptedLabelShares, LabelSharesKept, KnownBits
        )
