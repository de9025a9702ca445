"""Compare the marks of live messages of several parties: what does not fit, by whose doing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from pv4fad.audit.live_marks import LiveMark
from pv4fad.audit.log_file import LogFile

Way = tuple[str, str, str]
"""Session, sender, receiver."""


@dataclass(frozen=True)
class LiveAudit:
    """What the comparison has shown."""

    n_messages: int
    """Live messages up to the last mark of each session and direction."""
    n_missing: int
    """Of these their receivers did not get, by their own account."""
    faults: tuple[tuple[str, str], ...]
    """Party, and what it has to explain."""


def verify_live(logs: Sequence[LogFile], apart: Set[frozenset[str]]) -> LiveAudit:
    """`apart`: pairs that are not compared, because their logs differ about a key."""
    given = {log.party: log for log in logs}
    marks = {log.party: _by_way(log) for log in logs}
    ways = dict.fromkeys(way for of_log in marks.values() for way in of_log)
    n_messages = n_missing = 0
    faults: list[tuple[str, str]] = []
    for way in ways:
        session, sender, receiver = way
        if frozenset((sender, receiver)) in apart:
            continue
        sent, received = (
            marks[name].get(way, []) if name in given else None for name in (sender, receiver)
        )
        back = (session, receiver, sender)
        key, its_key = (
            given[name].signing_key if name in given else None for name in (sender, receiver)
        )
        replies = {
            name: [m for m in marks[name].get(back, []) if _is_good(m, its_key)]
            for name in (sender, receiver)
            if name in given
        }
        known = [*(sent or ()), *(received or ())]
        n_messages += max(mark.number for mark in known)
        n_missing += max((mark.missing for mark in received or ()), default=0)
        for owner, of_owner in ((sender, sent), (receiver, received)):
            faults += [(owner, what) for what in _of_log(of_owner or (), owner, key)]
        if sent is not None:
            good = [mark for mark in received or () if _is_good(mark, key)]
            faults += [(sender, what) for what in _not_kept(sent, good, replies[sender])]
        if received is not None:
            confirmed = [mark for of_end in replies.values() for mark in of_end]
            faults += [(receiver, what) for what in _confirmed_only(received, confirmed)]
    return LiveAudit(n_messages, n_missing, tuple(dict.fromkeys(faults)))


def _by_way(log: LogFile) -> dict[Way, list[LiveMark]]:
    """The owner's marks, sent and received; there may be many sessions."""
    found: dict[Way, list[LiveMark]] = {}
    for mark in log.live:
        if log.party in (mark.sender, mark.receiver):
            found.setdefault(_way(mark), []).append(mark)
    return found


def _of_log(marks: Sequence[LiveMark], owner: str, key: str | None) -> Iterator[str]:
    """Each log by itself: signed marks, in order."""
    for mark in marks:
        # Another key of the sender in the receiver's log may be an earlier one.
        if not _is_good(mark, key if owner == mark.sender else None):
            yield f"in its log {_named(mark, owner)} is not what was signed"
    for one, after in pairwise(marks):
        if after.number <= one.number:
            yield f"its log has {_named(after, owner)} after number {one.number}"


def _not_kept(
    sent: Sequence[LiveMark], received: Sequence[LiveMark], replies: Sequence[LiveMark]
) -> Iterator[str]:
    """What others hold under a sender's signature, or have confirmed in a mark that the sender has
    taken, and its own log has not."""
    own = {mark.number: mark.head for mark in sent}
    for mark in received:
        if mark.number not in own:
            what = f"its log does not have {_named(mark, mark.sender)}, which it signed"
            yield f"{what}: it left it out, or the log was put back"
        elif own[mark.number] != mark.head:
            yield f"it signed two different ones as {_named(mark, mark.sender)}"
    for reply in replies:
        if reply.seen_number and own.get(reply.seen_number) != reply.seen_head:
            yield (
                f"its log does not have the live mark {reply.seen_number} to {reply.sender} that"
                " this one has confirmed"
            )


def _confirmed_only(received: Sequence[LiveMark], replies: Sequence[LiveMark]) -> Iterator[str]:
    """What a receiver has confirmed, and its log has not."""
    kept = {(mark.number, mark.head) for mark in received}
    for reply in replies:
        if reply.seen_number and (reply.seen_number, reply.seen_head) not in kept:
            what = f"its log does not have the live mark {reply.seen_number} of {reply.receiver}"
            yield f"{what}, which it has confirmed"


def _is_good(mark: LiveMark, key: str | None) -> bool:
    return mark.is_signed and key in (None, mark.key)


def _way(mark: LiveMark) -> Way:
    return mark.session, mark.sender, mark.receiver


def _named(mark: LiveMark, owner: str) -> str:
    other = f"to {mark.receiver}" if owner == mark.sender else f"of {mark.sender}"
    return f"the live mark {mark.number} {other}"
