"""Counts how often messages are made and handled, wherever that happens in this process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pv4fad.parties.party import Party
from pv4fad.protocol.wire import Message


@dataclass
class MessageCount:
    """Every message is made once by its sender, and once more each time it is decoded."""

    made: int = 0
    handled: int = 0


def count_messages(patch: pytest.MonkeyPatch) -> MessageCount:
    """Count until the patch is undone."""
    count, make, handle = MessageCount(), Message.__post_init__, Party.handle

    def counting_make(self):
        count.made += 1
        make(self)

    def counting_handle(self, data):
        count.handled += 1
        return handle(self, data)

    patch.setattr(Message, "__post_init__", counting_make)
    patch.setattr(Party, "handle", counting_handle)
    return count
