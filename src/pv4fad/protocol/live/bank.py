"""The bank's part of ask live: it opens uniform slots, and returns their sums over tracks.

It works from memory: the keys in use are put there when they change (`use`), by whatever thread
works on the party's messages; what it answers is in no store.  What it cannot see it can only
limit: the number of queries per day (`budget`), and one query per tick.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pv4fad.errors import ProtocolError
from pv4fad.he.keys import SecretKey
from pv4fad.logs import Seldom
from pv4fad.protocol.checks import expect
from pv4fad.protocol.live.messages import REASONS, LiveQuery, LiveRefusal, LiveReply, Reason
from pv4fad.protocol.live.steps import ReplyMaker
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.wire import decode, digest, encode

TICKS_KEPT = 256
"""How many replies are remembered, for queries that come again."""
_SAY_EVERY_S = 1.0
_log = logging.getLogger("pv4fad.bank")


class LiveAnswers:
    """`answer` is called by one thread, `use` by the same or another one."""

    def __init__(self, name: str, spend: Callable[[], bool]) -> None:
        """`spend`: note one more query; False if the budget is spent."""
        self._name, self._spend = name, spend
        self._keys: Mapping[str, tuple[int, ReplyMaker]] = {}
        self._clock = b""
        self._answered: dict[int, tuple[bytes, bytes]] = {}  # tick → digest of the query, reply
        self._refused: Reason | None = None
        self._changes = Seldom(_log, _SAY_EVERY_S)
        self._n_outcomes = dict.fromkeys(("answered", *REASONS), 0)

    def outcomes(self) -> dict[str, int]:
        """How many queries were answered, and how many refused for which reason, so far."""
        return dict(self._n_outcomes)

    def use(self, keys: Mapping[str, tuple[int, SecretKey]]) -> None:
        """From now on: by run, the match whose keys are in use, and the secret one of them."""
        self._keys = {run: (epoch, ReplyMaker(key)) for run, (epoch, key) in keys.items()}

    def answer(self, data: bytes) -> bytes:
        """The reply to a query, or why there is none."""
        message = decode(data)
        if not isinstance(message, LiveQuery):
            raise ProtocolError(f"{self._name} was asked live with a {message.kind}")
        address = message.address
        expect(
            (address.sender, address.receiver) == (PAYMENT_NETWORK, self._name),
            message,
            "from somebody else, or for somebody else",
        )
        if message.clock != self._clock:
            self._clock, self._answered = message.clock, {}
        request = digest(data)
        before = self._answered.get(address.index)
        if before is not None and before[0] == request:
            return before[1]
        made = self._reply(message)
        self._n_outcomes[made if isinstance(made, str) else "answered"] += 1
        self._note(made if isinstance(made, str) else None)
        if isinstance(made, str):
            return encode(LiveRefusal(address.answer(), made))
        reply = encode(made)
        self._answered[address.index] = (request, reply)
        if len(self._answered) > TICKS_KEPT:
            del self._answered[min(self._answered)]
        return reply

    def _reply(self, message: LiveQuery) -> LiveReply | Reason:
        address = message.address
        epoch, maker = self._keys.get(address.run_id, (-1, None))
        if maker is None:
            return "no such model"
        if address.epoch != epoch:
            return "other keys"
        if address.index in self._answered:
            return "another query"
        if address.index < max(self._answered, default=0):
            return "tick over"
        query = maker.load(message.ciphertext)
        if not self._spend():
            return "budget spent"
        return LiveReply(address.answer(), maker.reply(query))

    def _note(self, refused: Reason | None) -> None:
        """In the log when it begins or changes, not at every tick."""
        if refused is None:
            level, text = logging.INFO, "live queries are answered"
        else:
            level, text = logging.WARNING, f"live queries are refused: {refused}"
        if refused != self._refused and self._changes.say(text, level=level):
            self._refused = refused
