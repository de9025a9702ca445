"""The ServerApp: the aggregator's relay, which reaches nodes through Flower's grid.

It runs on the aggregator's machine and finds the aggregator's folder and station through the
environment in which `pv4fad party run` started the SuperLink.  Nodes are known by their registered
keys, never by what they say.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.certificates import read_certificate
from pv4fad.deployment.exchange import Reply, Request, from_bytes, to_bytes
from pv4fad.deployment.flower.asking import Failure, relay_job
from pv4fad.deployment.flower.client_app import from_record, to_record
from pv4fad.deployment.flower.programs import FOLDER_VARIABLE, STATION_VARIABLE
from pv4fad.deployment.flower.station_socket import call
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.status import new_status, read_status
from pv4fad.errors import Pv4fadError
from pv4fad.protocol.roles import AGGREGATOR

_POLL_S = 0.2  # each poll costs the SuperLink some 20 ms
_SLOWEST_POLL_S = 1.0
_LIFE_S = 24 * 3600.0  # of a message, at most: a bank may work for hours

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry one job through; how it went is in status.json."""
    folder = PartyFolder(Path(os.environ[FOLDER_VARIABLE]))
    cards = folder.complete_cards()
    status = new_status(read_status(folder.path), str(context.run_config["job"]))
    own_station = Path(os.environ[STATION_VARIABLE])
    relay_job(folder.path, list(cards), status, FlowerGrid(grid, cards, own_station))


class FlowerGrid:
    """Reaches the station of every party; the aggregator's own is called directly."""

    def __init__(self, grid: Grid, cards: Mapping[str, PartyCard], own_station: Path) -> None:
        self._grid = grid
        self._own_station = own_station
        self._keys = {
            name: _as_registered(card.certificate)
            for name, card in cards.items()
            if name != AGGREGATOR
        }
        self._under_way: dict[str, str] = {}  # message id → party
        self._local: SimpleQueue[Reply | Failure] = SimpleQueue()
        self._failed: list[tuple[str, Failure]] = []
        self._poll_s = _POLL_S

    def send(self, party: str, request: Request) -> None:
        self._poll_s = _POLL_S
        if party == AGGREGATOR:
            Thread(target=self._call_own_station, args=(request,), daemon=True).start()
            return
        node_id = self._node_of(party)
        if node_id is None:
            self._failed.append((party, Failure("its node is not connected")))
            return
        record = to_record(to_bytes(request))
        message = Message(record, node_id, "query", ttl=_LIFE_S)
        (message_id,) = self._grid.push_messages([message]) or (None,)
        if message_id is None:
            self._failed.append((party, Failure("the SuperLink did not take the message")))
        else:
            self._under_way[message_id] = party

    def receive(self) -> list[tuple[str, Reply | Failure]]:
        found: list[tuple[str, Reply | Failure]] = [*self._failed]
        self._failed = []
        if self._under_way:
            replies = self._grid.pull_messages(list(self._under_way))
            found += [self._taken(reply) for reply in replies]
        if found:
            self._poll_s = _POLL_S
        try:
            # Long work is asked about less and less often.
            found.append((AGGREGATOR, self._local.get(timeout=0 if found else self._poll_s)))
        except Empty:
            self._poll_s = min(self._poll_s * 1.1, _SLOWEST_POLL_S)
        return found

    def _taken(self, message: Message) -> tuple[str, Reply | Failure]:
        party = self._under_way.pop(message.metadata.reply_to_message_id)
        if message.has_error():
            return party, Failure(f"error {message.error.code} of its node")
        try:
            return party, from_bytes(from_record(message.content), Reply)
        except Pv4fadError as error:
            return party, Failure(str(error))

    def _node_of(self, party: str) -> int | None:
        """The connected node that was registered with the party's key."""
        for node in self._grid.get_nodes():
            if node.public_key == self._keys[party]:
                return int(node.node_id)
        return None

    def _call_own_station(self, request: Request) -> None:
        try:
            self._local.put(from_bytes(call(self._own_station, to_bytes(request)), Reply))
        except Pv4fadError as error:
            time.sleep(_SLOWEST_POLL_S)
            self._local.put(Failure(str(error)))


def _as_registered(certificate: str) -> bytes:
    """A public key as the SuperLink keeps it."""
    key = read_certificate(certificate).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
