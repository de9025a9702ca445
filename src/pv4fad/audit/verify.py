"""Compare the logs of several parties: what does not fit, and by whose doing.

A signature cannot be denied: what a party signed and others hold has to be in its own log, once.
What a party says it has seen has to be in its log as well.  So a message that was changed, left
out, moved or replaced, and a store that was put back, show in the logs of the others.

A party is named for what it has signed, or for its own log, and for nothing that only stands in the
log of another.  Parties whose logs are not given are judged by what the others hold, under the key
that those have of it.  Who lies together with everybody whom it exchanged messages with is not
found.

Anybody can sign a log with a new key in a party's name.  So where the log of another party has
another key of it, both are named, nothing is held against either, and only the cards can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pv4fad.audit.ledgers import check_ledger
from pv4fad.audit.log_file import LogFile, LoggedMessage
from pv4fad.audit.stamp import first_head
from pv4fad.audit.verify_live import verify_live
from pv4fad.errors import DataError
from pv4fad.protocol.identity import fingerprint_of
from pv4fad.protocol.roles import PAYMENT_NETWORK


@dataclass(frozen=True)
class Fault:
    """What does not fit, and who has to explain it."""

    party: str
    """Of two that contradict each other: "bank01 and bank02"."""
    what: str


@dataclass(frozen=True)
class Audit:
    """What the comparison of logs has shown."""

    parties: tuple[str, ...]
    n_messages: int
    """Different ones, in all logs together."""
    n_confirmed: int
    """Of these the receiver has said, under its own signature, that it has them."""
    n_live: int
    """Live messages that marks cover."""
    n_live_missing: int
    """Of these did not arrive: late ones are dropped."""
    faults: tuple[Fault, ...]


def verify_logs(logs: Sequence[LogFile]) -> Audit:
    """Of each party one log."""
    names = [log.party for log in logs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"two logs of {twice[0]} were given")
    disputes = _key_disputes(logs)
    apart = {frozenset((one.holder, one.party)) for one in disputes if not one.is_known}
    aside = {one.party for one in disputes if one.is_alone}
    logs = [log for log in logs if log.party not in aside]
    chains = [one for one in _chains(logs) if frozenset((one.sender, one.receiver)) not in apart]
    faults = [*(one.fault() for one in disputes), *_commitments_differ(chains)]
    n_messages = n_confirmed = 0
    for chain in chains:
        faults += chain.faults()
        n_messages += len(chain.numbers)
        n_confirmed += len(chain.numbers & chain.confirmed)
    for log in logs:
        stamps = [
            (chain.receiver, message)
            for chain in chains
            if chain.sender == log.party
            for message in chain.signed()
        ]
        faults += [Fault(log.party, what) for what in check_ledger(log, stamps)]
    live = verify_live(logs, apart)
    faults += [Fault(*found) for found in live.faults]
    return Audit(
        *(tuple(names), n_messages, n_confirmed, live.n_messages, live.n_missing),
        tuple(dict.fromkeys(faults)),
    )


Messages = tuple[LoggedMessage, ...]


@dataclass(frozen=True)
class _Chain:
    """The messages from one party to another, as either has them; and the way back, for what the
    receiver has confirmed."""

    sender: str
    receiver: str
    key: bytes
    """The sender's."""
    sent: Messages | None
    received: Messages | None
    replies: Messages

    @property
    def numbers(self) -> set[int]:
        return {message.number for message in (*(self.sent or ()), *(self.received or ()))}

    @property
    def confirmed(self) -> set[int]:
        return {number for reply in self.replies for number in reply.confirms}

    def signed(self) -> Iterator[LoggedMessage]:
        """What its sender has signed, in either log."""
        for message in (*(self.received or ()), *(self.sent or ())):
            if self._is_signed(message):
                yield message

    def faults(self) -> Iterator[Fault]:
        found = (*self._of_sender(), *self._of_receiver(), *self._compared(), *self._seen())
        for fault in found:
            log = self.sent if fault.party == self.sender else self.received
            other = self.receiver if fault.party == self.sender else self.sender
            if log is None:
                yield Fault(fault.party, f"{fault.what} (by its key in the log of {other})")
            else:
                yield fault

    def _of_sender(self) -> Iterator[Fault]:
        """The sender's own log: complete, in order, signed."""
        before, expected = first_head(self.sender, self.receiver), 1
        for message in self.sent or ():
            where = f"message {message.number} to {self.receiver}"
            if message.number != expected:
                yield Fault(self.sender, f"its log has no message {expected} to {self.receiver}")
            elif bytes.fromhex(message.before) != before:
                yield Fault(self.sender, f"in its log {where} does not follow the one before")
            elif not self._is_signed(message):
                yield Fault(self.sender, f"in its log {where} is not what it signed")
            before, expected = message.head, message.number + 1

    def _of_receiver(self) -> Iterator[Fault]:
        """The receiver takes only what is signed, in order."""
        signed: list[LoggedMessage] = []
        for message in self.received or ():
            if self._is_signed(message):
                signed.append(message)
            else:
                where = f"message {message.number} of {self.sender}"
                yield Fault(self.receiver, f"in its log {where} is not what was signed")
        for one, after in pairwise(signed):
            number = after.number
            if number <= one.number:
                what = f"its log has message {number} of {self.sender} after message {one.number}"
                yield Fault(self.receiver, what)
            elif number == one.number + 1 and bytes.fromhex(after.before) != one.head:
                what = f"its message {number} to {self.receiver} does not follow the one before"
                yield Fault(self.sender, what)

    def _compared(self) -> Iterator[Fault]:
        if self.sent is None or self.received is None:
            return
        sent = {message.number: message for message in self.sent if self._is_signed(message)}
        received = {one.number: one for one in self.received if self._is_signed(one)}
        for number, message in received.items():
            if number not in sent:
                what = f"its log does not have message {number} to {self.receiver}, which it signed"
                yield Fault(self.sender, f"{what}: it left it out, or its store was put back")
            elif sent[number].head != message.head:
                what = f"it signed two different messages {number} to {self.receiver}"
                yield Fault(self.sender, f"{what}: it lies, or its store was put back")
        last, here = max(received, default=0), {one.number for one in self.received}
        for number in sorted(set(sent) - here - self.confirmed):
            if number < last:
                what = f"its message {number} to {self.receiver} ({sent[number].message}) did not"
                what = f"{what} arrive, by the log of {self.receiver}, and was never confirmed"
                yield Fault(self.sender, f"{what}: given up, lost on the way, or dropped there")

    def _seen(self) -> Iterator[Fault]:
        """What the receiver says it has: in its own log, or, since the sender has taken that, in
        the sender's."""
        own, whose = (self.received, self.receiver), (self.sent, self.sender)
        log, owner = own if self.received is not None else whose
        here = {message.number for message in log or ()}
        for number in sorted(self.confirmed - here):
            what = f"message {number} of {self.sender} to {self.receiver} is not in its log, and"
            what = f"{what} {self.receiver} has confirmed it"
            yield Fault(owner, f"{what}: it left it out, or its store was put back")
        heads = {(one.number, one.head) for one in log or () if self._is_signed(one)}
        for reply in self.replies:
            seen = reply.seen
            if seen.number in here and (seen.number, bytes.fromhex(seen.head)) not in heads:
                what = (
                    f"message {seen.number} of {self.sender} to {self.receiver} in its log is not"
                )
                yield Fault(owner, f"{what} the one that {self.receiver} has confirmed")
        for one, after in pairwise(self.replies):
            if after.seen.number < one.seen.number:
                what = f"confirms message {after.seen.number} after message {one.seen.number}"
                what = f"in message {after.number} to {self.sender} it {what}"
                yield Fault(self.receiver, f"{what}: its store was put back")

    def _is_signed(self, message: LoggedMessage) -> bool:
        return message.is_signed_by(self.key, self.sender, self.receiver)


def _chains(logs: Sequence[LogFile]) -> list[_Chain]:
    """All chains, each as both of its ends have it."""
    kept = {
        (log.party, chain.direction, chain.other, chain.key): chain.messages
        for log in logs
        for chain in log.chains
    }
    keys = {log.party: log.signing_key for log in logs}
    ends: dict[tuple[str, str], str] = {}  # sender, receiver → key of the sender
    for log in logs:
        for chain in log.chains:
            ends.setdefault((chain.other, log.party), keys.get(chain.other, chain.key))
            ends.setdefault((log.party, chain.other), keys[log.party])
    found = []
    for (sender, receiver), key in sorted(ends.items()):
        back = keys.get(receiver) or ends.get((receiver, sender), "")
        sent = kept.get((sender, "sent", receiver, back))
        received = kept.get((receiver, "received", sender, key))
        replies = {
            reply.signature: reply
            for at in ((receiver, "sent", sender, key), (sender, "received", receiver, back))
            for reply in kept.get(at, ())
            if reply.is_signed_by(bytes.fromhex(back), receiver, sender)
        }
        given = set(keys)
        found.append(
            _Chain(
                sender,
                receiver,
                bytes.fromhex(key),
                (sent or ()) if sender in given else None,
                (received or ()) if receiver in given else None,
                tuple(sorted(replies.values(), key=lambda reply: reply.number)),
            )
        )
    return found


@dataclass(frozen=True)
class _KeyDispute:
    """A party's own log has another key of it than the log of another party."""

    holder: str
    """The other party."""
    party: str
    keys: tuple[str, ...]
    """Of the party, in the holder's log."""
    own: str
    """In its own log."""
    is_known: bool
    """The holder's log has messages under the party's own key, too."""
    is_alone: bool
    """No other log has the party's own key: anybody could have made its log."""

    def fault(self) -> Fault:
        theirs = ", ".join(fingerprint_of(bytes.fromhex(key))[:16] for key in self.keys)
        own = fingerprint_of(bytes.fromhex(self.own))[:16]
        what = (
            f"their logs have different keys of {self.party}, {theirs} in that of {self.holder} and"
            f" {own} in that of {self.party}: one of the two logs is false, or {self.party} had"
            f" another key before. Compare with the card of {self.party}"
        )
        if not self.is_known:
            what += "; what they have of each other was not compared"
        if self.is_alone:
            what += f", nor the log of {self.party} with any other"
        return Fault(f"{self.holder} and {self.party}", what)


def _key_disputes(logs: Sequence[LogFile]) -> list[_KeyDispute]:
    own = {log.party: log.signing_key for log in logs}
    held = {log.party: log.keys_of_others() for log in logs}
    return [
        _KeyDispute(
            holder,
            party,
            tuple(sorted(keys - {own[party]})),
            own[party],
            is_known=own[party] in keys,
            is_alone=not any(
                own[party] in others.get(party, ())
                for name, others in held.items()
                if name != party
            ),
        )
        for holder, of_others in held.items()
        for party, keys in of_others.items()
        if party in own and keys - {own[party]}
    ]


def _commitments_differ(chains: Iterable[_Chain]) -> Iterator[Fault]:
    """The payment network commits to the same for everybody."""
    shown: dict[tuple[str, bytes], dict[str, set[str]]] = {}
    for chain in chains:
        if chain.sender != PAYMENT_NETWORK:
            continue
        for message in chain.signed():
            if message.commitment:
                of_run = shown.setdefault((message.message.split("/")[0], chain.key), {})
                of_run.setdefault(message.commitment, set()).add(chain.receiver)
    for (run_id, _), receivers in shown.items():
        if len(receivers) > 1:
            who = ", ".join(sorted(set.union(*receivers.values())))
            what = f"run {run_id}: it has shown different commitments to {who}"
            yield Fault(PAYMENT_NETWORK, what)
