"""Compare the logs of several parties: what does not fit, and by whose doing.

A signature cannot be denied: what a party signed and others hold has to be in its own log, once.
What a party says it has seen has to be in its log as well.  So a message that was changed, left
out, moved or replaced, and a store that was put back, show in the logs of the others.

Parties whose logs are not given are judged by what the others hold.  Who lies together with
everybody whom it exchanged messages with is not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pv4fad.audit.ledgers import check_ledger
from pv4fad.audit.log_file import LogFile, LoggedMessage
from pv4fad.audit.stamp import first_head
from pv4fad.audit.verify_live import verify_live
from pv4fad.errors import DataError


@dataclass(frozen=True)
class Fault:
    """What does not fit, and who has to explain it."""

    party: str
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
    chains = _chains(logs)
    by_name = {log.party: log for log in logs}
    faults = [*_keys_differ(logs), *_commitments_differ(logs)]
    n_messages = n_confirmed = 0
    for chain in chains:
        faults += chain.faults()
        n_messages += len(chain.numbers)
        n_confirmed += len(chain.confirmed)
    for log in logs:
        stamps = [
            (chain.receiver, message)
            for chain in chains
            if chain.sender == log.party
            for message in (*(chain.received or ()), *(chain.sent or ()))
        ]
        faults += [Fault(log.party, what) for what in check_ledger(log, stamps)]
    live = verify_live(logs)
    faults += [Fault(*found) for found in live.faults]
    return Audit(
        *(tuple(by_name), n_messages, n_confirmed, live.n_messages, live.n_missing),
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
        last = max((reply.seen.number for reply in self.replies), default=0)
        return {number for number in self.numbers if number <= last}

    def faults(self) -> Iterator[Fault]:
        yield from self._of_sender()
        yield from self._of_receiver()
        yield from self._compared()
        yield from self._seen()

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
        last = max(received, default=0)
        for number in sorted(set(sent) - {one.number for one in self.received}):
            what = f"message {number} of {self.sender} ({sent[number].message})"
            if number in self.confirmed:
                what += " is not in its log, and it has confirmed it"
                yield Fault(self.receiver, f"{what}: it left it out, or its store was put back")
            elif number < last:
                what = f"its message {number} to {self.receiver} ({sent[number].message})"
                yield Fault(self.sender, f"{what} did not arrive: given up, or lost on the way")

    def _seen(self) -> Iterator[Fault]:
        """What the receiver says it has seen."""
        heads = {0: {first_head(self.sender, self.receiver).hex()}}
        for message in (*(self.sent or ()), *(self.received or ())):
            if self._is_signed(message):
                heads.setdefault(message.number, set()).add(message.head.hex())
        known = {0, *(message.number for message in self.sent or ())}
        for reply in self.replies:
            seen = reply.seen
            where = f"in message {reply.number} to {self.sender} it"
            if seen.head not in heads.get(seen.number, {seen.head}):
                if self.received is not None:
                    what = f"confirms another message {seen.number} than was sent"
                    yield Fault(self.receiver, f"{where} {what}")
                else:  # the sender would not have taken it
                    what = f"its message {seen.number} to {self.receiver} is not the one that this"
                    yield Fault(self.sender, f"{what} one has confirmed")
            elif seen.number not in known and self.sent is not None:
                what = f"does not have message {seen.number} to {self.receiver}, which this one has"
                what = f"its log {what} confirmed: it left it out, or its store was put back"
                yield Fault(self.sender, what)
        for one, after in pairwise(self.replies):
            if after.seen.number < one.seen.number:
                what = f"confirms message {after.seen.number} after message {one.seen.number}"
                what = f"in message {after.number} to {self.sender} it {what}"
                yield Fault(self.receiver, f"{what}: its store was put back")

    def _is_signed(self, message: LoggedMessage) -> bool:
        content = bytes.fromhex(message.content)
        return message.stamp().is_signed_by(self.key, self.sender, self.receiver, content)


def _chains(logs: Sequence[LogFile]) -> list[_Chain]:
    """All chains, each as both of its ends have it."""
    kept = {
        (log.party, chain.direction, chain.other, chain.key): chain.messages
        for log in logs
        for chain in log.chains
    }
    keys = {log.party: log.public.signing_key.hex() for log in logs}
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
        replies = kept.get((receiver, "sent", sender, key))
        if replies is None:
            replies = kept.get((sender, "received", receiver, back), ())
        given = set(keys)
        found.append(
            _Chain(
                sender,
                receiver,
                bytes.fromhex(key),
                (sent or ()) if sender in given else None,
                (received or ()) if receiver in given else None,
                replies,
            )
        )
    return found


def _keys_differ(logs: Iterable[LogFile]) -> Iterator[Fault]:
    own = {log.party: log.public.signing_key.hex() for log in logs}
    for log in logs:
        for chain in log.chains:
            if own.get(chain.other, chain.key) != chain.key:
                what = f"its log has messages of {chain.other} under another key than its present"
                yield Fault(log.party, f"{what} one: give the log of that key, too")


def _commitments_differ(logs: Iterable[LogFile]) -> Iterator[Fault]:
    """The payment network commits to the same for everybody."""
    shown: dict[str, Mapping[str, str]] = {}
    for log in logs:
        for run in log.runs:
            shown[run.run_id] = {**shown.get(run.run_id, {}), log.party: run.commitment}
    for run_id, by_party in shown.items():
        if len(set(by_party.values())) > 1:
            who = ", ".join(sorted(by_party))
            what = f"run {run_id}: it has shown different commitments to {who}"
            yield Fault("payment-network", what)
