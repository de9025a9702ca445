"""What a bank says to live messages of the payment network, besides what its station does.

A query is answered from memory (`protocol.live.bank`).  A notice is kept in the bank's store,
which belongs to the station: that may take seconds while a training is under way, and live messages
must not wait for each other.  So the answer to a notice is nothing until it is kept, then the
receipt; who sent it asks again with the same bytes.  If the bank does not take it, and would not
take it later either, the answer is `REFUSED`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from pv4fad.errors import ProtocolError, Pv4fadError
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.live.messages import LiveQuery
from pv4fad.protocol.notify.bank import notices
from pv4fad.protocol.notify.messages import Notify
from pv4fad.protocol.notify.state import ReceivedNotice
from pv4fad.protocol.wire import read_header
from pv4fad.store.store import Store

NOT_YET = b""
"""The answer to a notice that is not kept yet."""
REFUSED = b"\0"
"""The answer to one that must not be kept, such as of a run of which the bank has no model."""
_MOST_WAITING = 100
_log = logging.getLogger("pv4fad.station")

Errand = Callable[[Callable[[], list[bytes]]], Future[list[bytes]]]


class BankAnswers:
    """`answer` is called by the thread of live messages; it never waits."""

    def __init__(
        self,
        store: Store,
        handle: Callable[[bytes], list[bytes]],
        errand: Errand,
        queries: LiveAnswers,
    ) -> None:
        """`handle` and the store are used inside errands only."""
        self._store, self._handle, self._errand = store, handle, errand
        self._queries = queries
        self._lock = threading.Lock()
        self._waiting: set[bytes] = set()
        self._latest: dict[bytes, bytes] = {}
        """Answers that may be asked for again, by notice."""
        self._notices: Sequence[ReceivedNotice] = notices(store)

    def notices(self) -> Sequence[ReceivedNotice]:
        """All that the bank has received, the latest first."""
        return self._notices

    def answer(self, message: bytes) -> bytes:
        kind = read_header(message).kind
        if kind == LiveQuery.kind:
            return self._queries.answer(message)
        if kind == Notify.kind:
            return self._answer_notice(message)
        raise ProtocolError("this bank takes no such live message")

    def _answer_notice(self, message: bytes) -> bytes:
        with self._lock:
            answer = self._latest.get(message)
            if answer is not None:
                return answer
            if message in self._waiting or len(self._waiting) >= _MOST_WAITING:
                return NOT_YET
            self._waiting.add(message)
        self._errand(lambda: self._keep(message)).add_done_callback(
            lambda done: self._kept(message, done)
        )
        return NOT_YET

    def _keep(self, message: bytes) -> list[bytes]:
        replies = self._handle(message)
        self._notices = notices(self._store)
        return replies

    def _kept(self, message: bytes, done: Future[list[bytes]]) -> None:
        with self._lock:
            self._waiting.discard(message)
            if done.cancelled():
                return
            error = done.exception()
            if error is None:
                # Notices come one after the other: of those before nobody asks any more.
                self._latest = {message: b"".join(done.result())}
            elif isinstance(error, ProtocolError):
                self._latest = {message: REFUSED}
                _log.warning("a notice was refused: %s", error)
            else:  # such as a full disk; who sent it asks again
                words = str(error) if isinstance(error, Pv4fadError) else type(error).__name__
                _log.error("a notice was not kept: %s", words)
