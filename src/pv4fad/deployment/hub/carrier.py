"""The hub and its nodes as a carrier."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version

import grpc

from pv4fad.deployment.exchange import WINDOW_BYTES, Job
from pv4fad.deployment.hub import connection
from pv4fad.deployment.hub.live import answering
from pv4fad.deployment.hub.node import Node
from pv4fad.deployment.hub.server import run_hub
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.station import Station
from pv4fad.deployment.status import Status, read_status
from pv4fad.errors import StoreError
from pv4fad.metrics.figures import Figures
from pv4fad.protocol.roles import AGGREGATOR

_ANSWERS_WITHIN_S = 10.0
_STARTS_WITHIN_S = 60.0


class HubCarrier:
    """`pv4fad.deployment.carrier.Carrier` on gRPC."""

    window_bytes = WINDOW_BYTES

    def version(self) -> str:
        return f"grpcio {version('grpcio')}"

    def serve(
        self,
        folder: PartyFolder,
        station: Station,
        ended: threading.Event,
        ready: Callable[[], None],
    ) -> None:
        with ExitStack() as running:
            if folder.settings().role == AGGREGATOR:
                running.enter_context(_hub(folder, ended, station.figures))
            running.enter_context(connected(folder, station))
            if station.live is not None:
                own = station.correspondence
                running.enter_context(
                    answering(folder, own, station.live.answer, station.figures.failed)
                )
            ready()
            ended.wait()

    def is_online(self, folder: PartyFolder) -> bool:
        return bool(_call(folder, connection.ONLINE, b""))

    def start_job(self, folder: PartyFolder, job: Job) -> int:
        return int(json.loads(_call(folder, connection.START, job.encode())))

    def status(self, folder: PartyFolder) -> Status | None:
        try:
            found = _call(folder, connection.STATUS, b"")
        except StoreError:
            if folder.settings().role != AGGREGATOR:
                raise
            return read_status(folder.path)  # what the hub wrote before it ended
        return Status.model_validate_json(found) if found else None

    def require_running(self, folder: PartyFolder, running: Status) -> None:
        try:
            _call(folder, connection.STATUS, b"")
        except StoreError as error:
            raise StoreError(
                f"{error}. Job {running.number} ({running.job}) goes on when pv4fad party run runs"
                " again at the aggregator"
            ) from None


@contextmanager
def connected(folder: PartyFolder, station: Station) -> Iterator[Node]:
    """A station that is connected with the hub, or about to be, until the block ends."""
    node = Node(folder, station)
    try:
        yield node
    finally:
        node.close()


@contextmanager
def _hub(folder: PartyFolder, ended: threading.Event, figures: Figures) -> Iterator[None]:
    """A hub in a thread; an error there ends the party."""
    listening, over = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            run_hub(folder, listening.set, over, figures)
        except BaseException as error:
            failed.append(error)
            listening.set()
            ended.set()

    thread = threading.Thread(target=run, name="hub", daemon=True)
    thread.start()
    try:
        if not listening.wait(_STARTS_WITHIN_S):
            raise StoreError("the hub does not listen")
        if not failed:
            yield
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]


def _call(folder: PartyFolder, name: str, data: bytes) -> bytes:
    with connection.dial(folder) as channel:
        try:
            answer = channel.unary_unary(connection.path(name))(data, timeout=_ANSWERS_WITHIN_S)
        except grpc.RpcError as error:
            raise StoreError(connection.why(error)) from None
    return bytes(answer)
