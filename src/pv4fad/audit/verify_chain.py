"""One chain of messages as both of its ends have it: what does not fit, and by whose doing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from pv4fad.audit.log_file import LogFile, LoggedMessage
from pv4fad.audit.stamp import first_head
from pv4fad.audit.verify_keys import fingerprints


@dataclass(frozen=True)
class Fault:
    """What does not fit, and who has to explain it."""

    party: str
    """Of two that contradict each other: "bank01 and bank02"."""
    what: str


Messages = tuple[LoggedMessage, ...]


@dataclass(frozen=True)
class TwoEnds:
    """The messages from one party to another, as either has them; and the way back, for what the
    receiver has confirmed."""

    sender: str
    key: str
    """The sender's."""
    receiver: str
    receiver_key: str
    sent: Messages | None
    received: Messages | None
    strays: frozenset[LoggedMessage]
    """Of what was received; by the sender's log they were sent to another key of the receiver."""
    replies: Messages

    @property
    def numbers(self) -> set[int]:
        return {message.number for message in (*(self.sent or ()), *(self.received or ()))}

    @property
    def confirmed(self) -> set[int]:
        return {number for reply in self.replies for number in reply.confirms}

    def signed(self) -> Iterator[LoggedMessage]:
        """What its sender has signed, in either log."""
        yield from self.held()
        yield from filter(self._is_signed, self.sent or ())

    def held(self) -> Iterator[LoggedMessage]:
        """What its sender has signed, in the receiver's log."""
        yield from filter(self._is_signed, self.received or ())

    def faults(self, doubtful: Set[str]) -> Iterator[Fault]:
        """`doubtful`: who has several keys."""
        found = (*self._of_sender(), *self._of_receiver(), *self._compared(), *self._seen())
        of_sender = (self.sent, self.key, self.receiver)
        of_receiver = (self.received, self.receiver_key, self.sender)
        for fault in found:
            log, key, other = of_sender if fault.party == self.sender else of_receiver
            if log is None:
                what = f"{fault.what} (by its key {fingerprints([key])} in the log of {other})"
                named = f"{other} and {fault.party}" if fault.party in doubtful else fault.party
                yield Fault(named, what)
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
        """The receiver takes only what is signed, to it, in order."""
        signed: list[LoggedMessage] = []
        for message in self.received or ():
            if message in self.strays:
                what = f"by the log of {self.sender} message {message.number} in that of"
                what = f"{what} {self.receiver} was sent to another key of {self.receiver}"
                yield Fault(f"{self.receiver} and {self.sender}", what)
            elif self._is_signed(message):
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
        received = {
            one.number: one
            for one in self.received
            if one not in self.strays and self._is_signed(one)
        }
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
        return message.is_signed_by(bytes.fromhex(self.key), self.sender, self.receiver)


_End = tuple[str, str]
"""A party, and one of its keys."""


def both_ends(logs: Sequence[LogFile]) -> list[TwoEnds]:
    """All chains, each as both of its ends have it."""
    given = {(log.party, log.signing_key) for log in logs}
    kept: dict[tuple[_End, str, _End], Messages] = {}
    ways: set[tuple[_End, _End]] = set()
    for log in logs:
        own = (log.party, log.signing_key)
        for chain in log.chains:
            other = (chain.other, chain.key)
            ways |= {(own, other), (other, own)}
            at = (own, chain.direction, other)
            kept[at] = kept.get(at, ()) + chain.messages
    found = []
    for sender, receiver in sorted(ways):
        back = _strays(kept, receiver, sender)
        replies = {
            reply.signature: reply
            for at in ((receiver, "sent", sender), (sender, "received", receiver))
            for reply in kept.get(at, ())
            if reply not in back
            and reply.is_signed_by(bytes.fromhex(receiver[1]), receiver[0], sender[0])
        }
        found.append(
            TwoEnds(
                *(*sender, *receiver),
                sent=kept.get((sender, "sent", receiver), ()) if sender in given else None,
                received=kept.get((receiver, "received", sender), ())
                if receiver in given
                else None,
                strays=_strays(kept, sender, receiver),
                replies=tuple(sorted(replies.values(), key=lambda reply: reply.number)),
            )
        )
    return found


def _strays(
    kept: dict[tuple[_End, str, _End], Messages], sender: _End, receiver: _End
) -> frozenset[LoggedMessage]:
    """What a receiver has of a sender whose log says that it was sent to another key of the
    receiver: a stamp signs the receiver's name, and not its key."""
    elsewhere = {
        message.head
        for (own, direction, other), messages in kept.items()
        if (own, direction, other[0]) == (sender, "sent", receiver[0]) and other != receiver
        for message in messages
    }
    received = kept.get((receiver, "received", sender), ()) if elsewhere else ()
    return frozenset(message for message in received if message.head in elsewhere)
