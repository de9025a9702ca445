"""Connects a station with the hub, and connects it again when the connection is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import grpc

from pv4fad.deployment.exchange import Request, from_bytes, to_bytes
from pv4fad.deployment.hub import connection
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.station import Line, Station
from pv4fad.errors import WireError
from pv4fad.metrics.catalogue import CONNECTED, DISCONNECTIONS

_TRY_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_log = logging.getLogger("pv4fad.station")


class Node:
    """Runs in a thread of its own until it is closed."""

    def __init__(self, folder: PartyFolder, station: Station) -> None:
        self._station = station
        self._channel = connection.dial(folder)
        self._closed = threading.Event()
        self._call: grpc.Call | None = None
        self._connected = threading.Condition()
        self._is_connected = False
        self.problem = ""
        """Why the latest attempt failed."""
        station.figures.problem = self._why_away
        station.figures.add_source(lambda: [CONNECTED.of(float(self._is_connected))])
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._thread.start()

    def wait_until_connected(self, timeout_s: float) -> bool:
        """Whether it is connected, now or within this time."""
        with self._connected:
            return self._connected.wait_for(lambda: self._is_connected, timeout_s)

    def close(self) -> None:
        """End the connection."""
        self._closed.set()
        if self._call is not None:
            self._call.cancel()
        self._channel.close()
        self._thread.join()

    def _run(self) -> None:
        attempt = 0
        while not self._closed.is_set():
            try:
                self._talk()
                attempt = 0
            except grpc.RpcError as error:
                attempt = 0 if self._is_connected else attempt + 1
                self._note(connection.why(error))
            except (WireError, ValueError) as error:
                self._note(str(error))
            self._set_connected(False)
            self._closed.wait(_TRY_AGAIN_S[min(attempt, len(_TRY_AGAIN_S) - 1)])

    def _talk(self) -> None:
        line = self._station.new_line()
        try:
            exchange = self._channel.stream_stream(connection.path(connection.EXCHANGE))
            self._call = call = exchange(_sayings(line))
            if self._closed.is_set():
                call.cancel()
            call.initial_metadata()  # waits until the hub has taken the call
            if call.is_active():
                self._set_connected(True)
                _log.info("connected with the hub")
                self.problem = ""
            for data in call:
                self._station.take(from_bytes(data, Request))
        finally:
            line.end()
            if self._call is not None:
                self._call.cancel()

    def _why_away(self) -> str:
        if self._is_connected:
            return ""
        return f"not connected with the hub: {self.problem or 'connecting'}"

    def _set_connected(self, is_connected: bool) -> None:
        with self._connected:
            if self._is_connected and not is_connected:
                self._station.figures.count(DISCONNECTIONS)
            self._is_connected = is_connected
            self._connected.notify_all()

    def _note(self, problem: str) -> None:
        if problem != self.problem and not self._closed.is_set():
            _log.warning("not connected: %s; trying again", problem)
        self.problem = problem


def _sayings(line: Line) -> Iterator[bytes]:
    while (reply := line.next()) is not None:
        yield to_bytes(reply)
