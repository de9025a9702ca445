"""Two parties, or three, that stamp and take each other's messages."""

from __future__ import annotations

import numpy as np
from tests.kit.hub_world import letter

from pv4fad.audit.log_file import LogFile
from pv4fad.audit.notary import Notary, known_keys
from pv4fad.protocol.identity import Identity
from pv4fad.store.store import MemoryStore

ONE, TWO, THREE = "bank01", "bank02", "bank03"


class Pair:
    """Parties that know each other's keys."""

    def __init__(self, *names: str) -> None:
        """`names`: of others than these two."""
        self.identities = {name: Identity.generate(name) for name in (ONE, TWO, *names)}
        self.keys = known_keys(one.public() for one in self.identities.values())
        self.stores = {name: MemoryStore(name) for name in self.identities}

    def notary(self, name: str) -> Notary:
        return Notary(self.stores[name], self.identities[name], self.keys)

    def send(self, sender: str, number: int, content: int = 0, to: str = "") -> bytes:
        """Stamped, not delivered yet."""
        receiver = to or (TWO if sender == ONE else ONE)
        message = letter(sender, receiver, np.array([content], np.uint32), number)
        return self.notary(sender).stamped(message)

    def deliver(self, data: bytes, receiver: str = TWO) -> bytes:
        return self.notary(receiver).opened(data)

    def put_back(self, name: str, records: dict[str, bytes]) -> None:
        self.stores[name] = MemoryStore(name, records)

    def logs(self) -> dict[str, LogFile]:
        return {name: LogFile.of(self.stores[name], self.identities[name]) for name in self.stores}
