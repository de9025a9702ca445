"""The payment network's matches and batches: which one is under way, what is forgotten and when."""

from __future__ import annotations

from collections.abc import Sequence

from pv4fad.errors import OrderError
from pv4fad.parties.epochs import forget_messages
from pv4fad.protocol.run_records import RunRecords
from pv4fad.store.store import Transaction

_LAST = "last epoch"
_OVER = ("Matched", "Scored")
# Of training itself the model stays; what the join and its keys consist of does not.
_JOIN = ("secret key", "public key", "relinearisation key", "bank/", "ids/", "table/",
         "opened/", "shares/", "set masks/", "labels/", "known bits/")  # fmt: skip


def last_epoch(training: RunRecords) -> int:
    """The number of the latest match or batch; 0 if there was none since training."""
    return int(training.find_json(_LAST, 0))


def epoch_under_way(training: RunRecords) -> int | None:
    """The match or batch that is not over yet; one at a time."""
    epoch = last_epoch(training)
    return epoch if epoch and not is_over(training, epoch) else None


def is_over(training: RunRecords, epoch: int) -> bool:
    """Whether a match or batch has ended; one whose records are gone has."""
    stage = training.of_epoch(epoch).find_json("stage", None)
    return epoch <= last_epoch(training) and (stage is None or stage[0] in _OVER)


def new_epoch(training: RunRecords) -> int:
    """The number of a match or batch that begins."""
    epoch = epoch_under_way(training)
    if epoch is not None:
        raise OrderError(f"match or batch {epoch} is not over yet: carry on with that one first")
    epoch = last_epoch(training) + 1
    training.put_json(_LAST, epoch)
    return epoch


def close_epoch(run_id: str, epoch: int, tx: Transaction) -> None:
    """Forget a match or batch, whatever its state; a match in force cannot be given up any more."""
    training = RunRecords(tx, run_id)
    if epoch not in training.get_json("matches"):
        training.of_epoch(epoch).delete_all("")
        forget_messages(run_id, epoch, tx)


def put_in_force(training: RunRecords, epoch: int, *, replaces: bool) -> Sequence[int]:
    """A match is complete: the matches to score with from now on, all others are forgotten.

    One that replaces all others stands alone; any other follows the one that did.
    """
    before = training.get_json("matches")
    if replaces:
        training.put_json("key epoch", epoch)
    in_force = [epoch] if replaces else [before[0], epoch]
    training.put_json("matches", in_force)
    for old in training.epochs() - set(in_force):
        training.of_epoch(old).delete_all("")
    if 0 not in in_force:
        training.delete_all(*_JOIN)
    return in_force
