"""A federation whose other parties are behind the relay: messages go out, answers come in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pv4fad.flower.station import Post
from pv4fad.lead.federation import LedFederation
from pv4fad.parties.in_process import Observer
from pv4fad.protocol.wire import read_header


@dataclass(frozen=True)
class RemoteFederation(LedFederation):
    """The others are behind the relay."""

    accounts: Mapping[str, int]
    post: Post
    handle: Callable[[bytes], list[bytes]] = field(repr=False)
    is_over: Callable[[], bool] = field(repr=False)
    """Whether what was begun has come to its end."""
    unanswered: Callable[[], list[bytes]] = field(repr=False)
    """What may not have arrived and was not sent again when the session began."""

    @property
    def bank_accounts(self) -> Mapping[str, int]:
        return self.accounts

    def deliver(self, messages: Iterable[bytes], observer: Observer | None = None) -> None:
        self._send(messages, observer)
        while not self.is_over():
            data = self.post.receive()
            _observe([data], observer)
            self._send(self.handle(data), observer)

    def resume(self, observer: Observer | None = None) -> None:
        self.deliver(self.unanswered(), observer)

    def _send(self, messages: Iterable[bytes], observer: Observer | None) -> None:
        for message in messages:
            _observe([message], observer)
            self.post.send([message])


def _observe(messages: Iterable[bytes], observer: Observer | None) -> None:
    if observer is not None:
        for data in messages:
            observer(read_header(data), len(data))
