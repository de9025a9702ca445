"""A store that was restored takes in what the others hold of this party's messages.

    restored ── a code ──▶ every party that this one exchanges messages with
    their files (`witness`) ──▶ compared ──▶ nothing is missing: it goes on
                                         └─▶ messages are missing: they are taken into the log,
                                             what the ledger came to is entered as spent

The others' files show which messages this party has sent, under its own signature, and with each of
them how far its ledger was and what it came to.  So it cannot spend again what it has spent, and
since the ids of lost messages are in its log again, it never sends another one under such an id: no
mask, no noise and no number of a round is used twice (`notary`).  What was in a lost message is not
known; it is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from pv4fad.audit.log import Chain, Direction, ledger_marks, ledger_salt
from pv4fad.audit.log_file import LoggedMessage
from pv4fad.audit.witness import Witness
from pv4fad.errors import DataError, StoreError
from pv4fad.privacy.ledger import (
    Restored,
    Spent,
    note_forgotten_delta,
    note_restored,
    raw_entries,
    spent_in_all,
)
from pv4fad.protocol.identity import Identity
from pv4fad.randomness import secret_bytes
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store, Transaction

_CODE_BYTES = 8
_BEGIN_ANEW = (
    "this store cannot go on: make a new party folder (a bank: with a limit lowered by what it had"
    " spent) and give its card to all others"
)


@dataclass(frozen=True)
class NotCaughtUp(Record):
    """This store was restored, and does not know yet what it has done since the backup."""

    of_all_runs: ClassVar[bool] = True

    code: str
    """For the files of the others: it says that they were made since."""


@dataclass(frozen=True)
class CaughtUp:
    """What was missing."""

    lost: tuple[LoggedMessage, ...] = field(repr=False)
    """Messages of this party, in the order of their time."""
    received: tuple[LoggedMessage, ...] = field(repr=False)
    """Messages to this party that its store does not have."""
    before: Spent
    after: Spent
    """What the ledger came to by the store, and comes to now."""


def mark_restored(store: Store) -> str:
    """From now on the party waits for the others' files; the code for them is a new one, also if
    it was waiting when the backup was made."""
    code = secret_bytes(_CODE_BYTES).hex()
    with store.transaction() as tx:
        Records.of_party(tx).put(NotCaughtUp(code))
    return code


def code_for_others(store: Store) -> str:
    """Of the restoration under way; if there is none, one begins."""
    with store.transaction() as tx:
        kept = Records.of_party(tx).find(NotCaughtUp)
    return mark_restored(store) if kept is None else kept.code


def require_caught_up(store: Store) -> None:
    """`StoreError` if the store was restored and the others' files are not in."""
    with store.transaction() as tx:
        if Records.of_party(tx).has(NotCaughtUp):
            raise StoreError(
                f"the store of {store.party} was restored from a backup, and does not know what"
                " it has spent and sent since: pv4fad party catch-up FOLDER says what to do"
            )


def catch_up(
    tx: Transaction,
    identity: Identity,
    keys: Mapping[str, bytes],
    witnesses: Sequence[Witness],
    *,
    needed: Iterable[str],
    now: datetime,
) -> CaughtUp:
    """Compare, and take in what is missing.  `needed`: every party that messages went to.

    `DataError` for a file that is not what it should be, `StoreError` if the store contradicts what
    this party has signed; nothing is changed then.
    """
    marker = Records.of_party(tx).find(NotCaughtUp)
    if marker is None:
        raise StoreError("this store was not restored")
    own = identity.public().signing_key
    _require_all(needed, witnesses)
    for one in witnesses:
        _check(one, identity.name, own, keys, marker.code)
    missing = [
        (chain, _missing(chain, messages))
        for one in witnesses
        for chain, messages in (
            (_chain(tx, "sent", identity.name, one.witness, keys), one.received),
            (_chain(tx, "received", identity.name, one.witness, keys), one.sent),
        )
    ]
    lost = [m for chain, messages in missing if chain.direction == "sent" for m in messages]
    before = spent_in_all(tx)
    if lost:
        # Without that, what is not here is only on its way, and comes again.
        for chain, messages in missing:
            for lacking in messages:
                content = bytes.fromhex(lacking.content)
                chain.take_in(lacking.message, content, lacking.stamp())
        _take_in_ledger(tx, witnesses, now)
        tx.acknowledge_all()
    Records.of_party(tx).delete(NotCaughtUp)
    got = [m for chain, messages in missing if chain.direction == "received" for m in messages]
    return CaughtUp(tuple(lost), tuple(got if lost else ()), before, spent_in_all(tx))


def _require_all(needed: Iterable[str], witnesses: Sequence[Witness]) -> None:
    given = [one.witness for one in witnesses]
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise DataError(f"two files of {twice[0]} were given")
    missing = sorted(set(needed) - set(given))
    if missing:
        raise DataError(f"the file of {', '.join(missing)} is missing: all are needed")


def _check(one: Witness, party: str, own: bytes, keys: Mapping[str, bytes], code: str) -> None:
    """A witness that is known says so, about this party, and now; and leaves nothing out."""
    name = one.witness
    if name not in keys or not one.is_signed_by(keys[name]):
        raise DataError(f"the file of {name} is not signed by the {name} whose card is here")
    if (one.party, bytes.fromhex(one.key)) != (party, own):
        raise DataError(f"the file of {name} is about {one.party}, or about other keys of it")
    if one.code != code:
        raise DataError(
            f"the file of {name} was not made for this restoration, whose code is {code}"
        )
    for sender, receiver, key, messages in (
        (party, name, own, one.received),
        (name, party, keys[name], one.sent),
    ):
        for message in messages:
            if not message.is_signed_by(key, sender, receiver):
                raise DataError(
                    f"the file of {name}: {sender} has not signed message {message.number}"
                )
    has = {message.number for message in one.received}
    if any(message.confirms - has for message in one.sent):
        raise DataError(f"the file of {name} lacks messages that {name} has confirmed")


def _missing(chain: Chain, messages: Iterable[LoggedMessage]) -> list[LoggedMessage]:
    """Those that are not in the chain; the others must be the same."""
    missing = []
    for message in messages:
        kept = chain.head_at(message.number)
        if kept is None:
            missing.append(message)
        elif kept != message.head:
            sender = chain.own if chain.direction == "sent" else chain.other
            raise StoreError(
                f"{chain.other} holds another message {message.number} of {sender} than this"
                f" store: {_BEGIN_ANEW}"
            )
    return missing


def _take_in_ledger(tx: Transaction, witnesses: Sequence[Witness], now: datetime) -> None:
    """What this party has shown of its ledger, and no longer has."""
    marks = {mark.number: mark for mark in ledger_marks(ledger_salt(tx), raw_entries(tx))}
    n_known = max(marks)
    spent, latest, where = spent_in_all(tx), marks[n_known], set[str]()
    for one in witnesses:
        for message in one.received:
            mark = message.ledger.mark()
            known = marks.get(mark.number, mark) if mark.number != latest.number else latest
            if mark != known:
                raise StoreError(
                    f"message {message.number} to {one.witness} shows another ledger with"
                    f" {mark.number} entries than this store: {_BEGIN_ANEW}"
                )
            if mark.number > n_known:
                where.add(one.witness)
                if message.spent is None:
                    raise StoreError(
                        f"message {message.number} to {one.witness} was made by a version that"
                        f" does not say what was spent: {_BEGIN_ANEW}"
                    )
            if mark.number > latest.number:
                latest = mark
            if message.spent is not None:
                spent = spent.with_at_least(message.spent.spent())
    if latest.number > n_known:
        note_restored(
            tx,
            Restored(latest.number, latest.head.hex(), spent.epsilon, tuple(sorted(where)), now),
        )
    note_forgotten_delta(tx, spent, now)


def _chain(
    tx: Transaction, direction: Direction, own: str, other: str, keys: Mapping[str, bytes]
) -> Chain:
    return Chain(Records.of_party(tx), direction, own, other, keys[other])
