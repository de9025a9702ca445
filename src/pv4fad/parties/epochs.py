"""Matches and batches after training: each has a number, its epoch, and one is made at a time.

The payment network begins a new epoch only when the last one is over.  So whoever meets the first
message of an epoch knows that all it sent in the one before has arrived, and forgets it; what comes
later from an epoch that is over is refused.  Epoch 0 is training.
"""

from __future__ import annotations

from pv4fad.errors import OrderError
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.run_records import RunRecords
from pv4fad.protocol.wire import Message, message_id
from pv4fad.store.store import Transaction

_LATEST = "latest epoch"


def is_behind(message: Message, training: RunRecords) -> bool:
    """Whether a message belongs to a match or batch that is over here."""
    return message.address.epoch < int(training.find_json(_LATEST, 0))


def enter_epoch(message: Message, training: RunRecords, tx: Transaction) -> None:
    """A message of the latest epoch, or of a new one, which ends the one before."""
    epoch, latest = message.address.epoch, training.find_json(_LATEST, 0)
    if epoch < latest:
        raise OrderError(f"{message_id(message)}: match or batch {epoch} is over")
    if epoch == latest:
        return
    if latest == 0:
        last_of_training = training.find(f"chain/{PAYMENT_NETWORK}")
        if last_of_training is not None:
            tx.acknowledge(last_of_training.decode())
    else:
        forget_messages(message.address.run_id, latest, tx)
        training.of_epoch(latest).delete_all("chain/", "scores/")
    training.put_json(_LATEST, epoch)


def forget_messages(run_id: str, epoch: int, tx: Transaction) -> None:
    """Drop the journal of an epoch: nothing of it will be sent or asked for again."""
    # The epoch is the third part of a message's id.
    tx.prune(f"{run_id}/", lambda one: one.split("/")[2] == str(epoch))
