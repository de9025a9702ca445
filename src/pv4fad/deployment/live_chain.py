"""Both chains of a live session at one of its ends (`audit.live_marks`).

    before every message   head before it, time, latest mark of the other direction, signature

of the same size for all: a message that is no mark has zeros in place of the signature.  Numbers 1,
2, 4 and so on to 1024, and then every 1024th, are marks, so that short sessions have some as well.
A message that does not continue the chain, or a mark that its sender has not signed or that
confirms one that was not sent, is refused.

A mark may be lost on the way, and a sender that wants to leave none may use other numbers only.  So
a receiver takes a limited number of messages after a mark, and then nothing until the next one
(`UnmarkedError`).  That may be far away, after many messages were lost: only a new session helps at
once.
"""

from __future__ import annotations

import struct
import time

from pv4fad.audit.live_marks import (
    NOTHING_SEEN,
    LiveMark,
    MarkLog,
    first_live_head,
    next_live_head,
    statement,
)
from pv4fad.audit.stamp import Mark
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.errors import ProtocolError

MARK_EVERY = 1024
"""At 20 messages a second, every 51 s."""
_MOST_LOST = 4
"""So many marks of a long session may be lost one after the other before anything is refused."""
_BEFORE = struct.Struct(">32sQQ32s64s")
CHAIN_BYTES = _BEFORE.size
_NO_SIGNATURE = bytes(64)


class UnmarkedError(ProtocolError):
    """Too many messages without a mark; in a new session the first one is a mark."""


class LiveChain:
    """Used by one thread at a time."""

    def __init__(self, own: Correspondence, other: str, session: bytes, log: MarkLog) -> None:
        self._own, self._other, self.session, self._log = own, other, session, log
        self._sent = Mark(0, first_live_head(session, own.name, other))
        self._received = Mark(0, first_live_head(session, other, own.name))
        self._seen = NOTHING_SEEN
        self._marks = [NOTHING_SEEN]  # from the one that the other has confirmed
        self._missing = 0
        self._unmarked = 0  # messages that were taken since the last mark of the other

    def stamped(self, number: int, message: bytes) -> bytes:
        """A message as it is sealed."""
        before = self._sent.head
        self._sent = Mark(number, next_live_head(before, number, message))
        if not _is_mark(number):
            return _BEFORE.pack(before, 0, 0, bytes(32), _NO_SIGNATURE) + message
        now, seen = time.time_ns() // 1_000_000, self._seen
        ends = (self._own.name, self._other)
        signature = self._own.sign(statement(self.session, ends, self._sent, seen, now))
        self._log.append(self._mark(self._sent, ends, seen, now, signature))
        self._marks.append(self._sent)
        return _BEFORE.pack(before, now, *vars(seen).values(), signature) + message

    def opened(self, number: int, data: bytes) -> bytes:
        """A message of the other without what stood before it; those between may be lost."""
        if len(data) < CHAIN_BYTES:
            raise ProtocolError(f"a live message of {self._other} without its chain")
        before, now, seen_number, seen_head, signature = _BEFORE.unpack_from(data)
        message = data[CHAIN_BYTES:]
        if number == self._received.number + 1 and before != self._received.head:
            raise ProtocolError(
                f"live message {number} of {self._other} does not follow the one before"
            )
        after = Mark(number, next_live_head(before, number, message))
        missing = self._missing + number - self._received.number - 1
        unmarked = self._unmarked + 1
        if _is_mark(number):
            ends, seen = (self._other, self._own.name), Mark(seen_number, seen_head)
            mark = self._mark(after, ends, seen, now, signature)
            if not mark.is_signed:
                raise ProtocolError(f"{self._other} has not signed its live message {number}")
            if seen not in self._marks:
                raise ProtocolError(f"{self._other} confirms a live mark that it was not sent")
            self._marks = self._marks[self._marks.index(seen) :]
            self._log.append(mark.model_copy(update={"missing": missing}))
            self._seen, unmarked = after, 0
        if unmarked > _MOST_LOST * min(max(self._seen.number, 1), MARK_EVERY):
            raise UnmarkedError(
                f"{self._other} has not marked its live messages since number {self._seen.number}:"
                f" number {number} is taken only after its next mark"
            )
        self._received, self._missing, self._unmarked = after, missing, unmarked
        return message

    def _mark(
        self, mark: Mark, ends: tuple[str, str], seen: Mark, now: int, signature: bytes
    ) -> LiveMark:
        return LiveMark(
            session=self.session.hex(),
            sender=ends[0],
            receiver=ends[1],
            key=self._own.signing_key(ends[0]).hex(),
            number=mark.number,
            head=mark.head.hex(),
            seen_number=seen.number,
            seen_head=seen.head.hex(),
            time_ms=now,
            signature=signature.hex(),
        )


def _is_mark(number: int) -> bool:
    return number % MARK_EVERY == 0 or (number < MARK_EVERY and number.bit_count() == 1)
