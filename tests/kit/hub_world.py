"""A hub on this machine with real TLS, and stations of parties that send what they are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.kit.waiting import comes_true

from pv4fad.audit.notary import Notary, known_keys
from pv4fad.cli.federation_demo import free_ports
from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.certificates import new_certificate
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.hub.carrier import HubCarrier, connected
from pv4fad.deployment.hub.node import Node
from pv4fad.deployment.hub.server import run_hub
from pv4fad.deployment.party_folder import KEY_FILE, PartyFolder
from pv4fad.deployment.station import Station
from pv4fad.deployment.status import Status
from pv4fad.metrics.figures import Figures
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.wire import Address, Message, decode, encode, wire_message
from pv4fad.store.store import MemoryStore

PATIENCE_S = 120


@wire_message("test-letter", max_bytes=2**28)
class Letter(Message):
    """From anybody to anybody."""

    content: NDArray[np.uint32]


def letter(sender: str, receiver: str, content: NDArray[np.uint32], number: int = 0) -> bytes:
    return encode(Letter(Address(sender, receiver, "run", "t", number), content))


@dataclass
class Scribe:
    """A member: the payment network sends each bank its letters, a bank returns each plus one."""

    name: str
    letters: dict[str, list[NDArray[np.uint32]]] = field(default_factory=dict)
    answers: dict[str, list[NDArray[np.uint32]]] = field(default_factory=dict)
    n_handled: int = 0
    before_handling: Callable[[], None] = lambda: None

    def begin_session(self) -> None:
        pass

    def unanswered(self) -> list[bytes]:
        return []

    def handle(self, data: bytes) -> list[bytes]:
        self.before_handling()
        self.n_handled += 1
        message = decode(data)
        assert isinstance(message, Letter)
        return [encode(Letter(message.address.answer(), message.content + 1))]

    def do(self, job, post, *, again: bool, order: str) -> None:
        self.answers = {name: [] for name in self.letters}
        expected = sum(map(len, self.letters.values()))
        if job == "train":
            for name, contents in self.letters.items():
                post.send(letter(self.name, name, c, i) for i, c in enumerate(contents))
            for _ in range(expected):
                message = decode(post.receive())
                assert isinstance(message, Letter)
                self.answers[message.address.sender].append(message.content)
            post.report(f"{expected} letters")


class HubWorld:
    """Folders with keys and cards; hub and stations run while their blocks last."""

    def __init__(self, root: Path, banks: list[str], settings: str = "") -> None:
        self.root, self.banks = root, banks
        self.parties = [AGGREGATOR, PAYMENT_NETWORK, *banks]
        (self.port,) = free_ports(1)
        self.identities = {name: Identity.generate(name) for name in self.parties}
        self.cards = {name: self._card(name) for name in self.parties}
        self.stores = {name: MemoryStore(name) for name in self.parties}
        for name in self.parties:
            folder = self.folder(name).path
            own = settings if name == AGGREGATOR else ""
            (folder / "party.toml").write_text(
                f'role = "{self.cards[name].role}"\nname = "{name}"\n'
                f'hub = "127.0.0.1:{self.port}"\n{own}'
            )
            (folder / "card.json").write_text(self.cards[name].to_json())
            (folder / "cards").mkdir()
            for other in self.parties:
                if other != name:
                    (folder / "cards" / f"{other}.json").write_text(self.cards[other].to_json())

    def _card(self, name: str) -> PartyCard:
        key = self.folder(name).file(KEY_FILE)
        key.parent.mkdir(parents=True)
        fixed = name in (AGGREGATOR, PAYMENT_NETWORK)
        return PartyCard(
            role=name if fixed else "bank",
            name=name,
            identity=self.identities[name].public().to_bytes().hex(),
            certificate=new_certificate(key, "127.0.0.1" if name == AGGREGATOR else ""),
            names=() if fixed else (f"{name}-accounts",),
            accounts=0 if fixed else 1000,
        )

    def folder(self, name: str) -> PartyFolder:
        return PartyFolder(self.root / name)

    def correspondence(self, name: str) -> Correspondence:
        return Correspondence(self.identities[name], self.cards)

    def new_station(self, member: Scribe) -> Station:
        name = member.name
        notary = Notary(
            self.stores[name],
            self.identities[name],
            known_keys(card.public for card in self.cards.values()),
        )
        return Station(member, self.correspondence(name), notary)

    @contextmanager
    def hub(self) -> Iterator[None]:
        listening, over = threading.Event(), threading.Event()
        self.hub_figures = Figures()
        arguments = (self.folder(AGGREGATOR), listening.set, over, self.hub_figures)
        thread = threading.Thread(target=run_hub, args=arguments, daemon=True)
        thread.start()
        assert listening.wait(PATIENCE_S)
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def station(self, member: Scribe, *, wait: bool = True) -> Iterator[Node]:
        station = self.new_station(member)
        try:
            with connected(self.folder(member.name), station) as node:
                assert not wait or node.wait_until_connected(PATIENCE_S), node.problem
                yield node
        finally:
            station.close()

    @contextmanager
    def stations(self, *members: Scribe, wait: bool = True) -> Iterator[None]:
        """Of these members, and of all parties that none is given for."""
        given = {member.name: member for member in members}
        with ExitStack() as stack:
            for name in self.parties:
                stack.enter_context(self.station(given.get(name) or Scribe(name), wait=wait))
            yield

    def start(self, job: str, by: str = AGGREGATOR) -> int:
        return HubCarrier().start_job(self.folder(by), job)

    def status(self) -> Status:
        found = HubCarrier().status(self.folder(AGGREGATOR))
        assert found is not None
        return found

    def finished(self) -> Status:
        """Once the job is over."""
        assert comes_true(lambda: self.status().state != "running", PATIENCE_S), self.status()
        return self.status()
