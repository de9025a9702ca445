"""What a carrier provides; `pv4fad.deployment` knows no more of it.

`hub` is the one that is used unless party.toml says otherwise, `flower` the other.  Another one is
another package beside them with this class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from pv4fad.deployment.exchange import Job
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.station import Station
from pv4fad.deployment.status import Status


class Carrier(Protocol):
    """Carries what the relay and the stations tell each other."""

    window_bytes: int
    """Of fragments from one party to another that are under way at a time."""

    def version(self) -> str:
        """Name and version; `DataError` if it is not installed, or another version."""

    def serve(
        self,
        folder: PartyFolder,
        station: Station,
        ended: threading.Event,
        ready: Callable[[], None],
    ) -> None:
        """Connect a party's station with the others until `ended`; at the aggregator also the hub.

        `ready` is called once, when others can connect, or this party begins to.
        """

    def is_online(self, folder: PartyFolder) -> bool:
        """Whether the party's station is connected; `StoreError` if the hub cannot be asked."""

    def start_job(self, folder: PartyFolder, job: Job) -> int:
        """Have the running hub carry a job through; returns its number."""

    def status(self, folder: PartyFolder) -> Status | None:
        """The state of the latest job; None before the first one."""

    def require_running(self, folder: PartyFolder, running: Status) -> None:
        """`StoreError` if the relay of a job that should be running is gone; may take a while."""
