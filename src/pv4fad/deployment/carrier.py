"""What a carrier provides; `pv4fad.deployment` knows no more of it.

Another carrier is another package beside `flower` with these two classes; the command line picks
one and passes it in.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pv4fad.deployment.exchange import Job, Reply, Request
from pv4fad.deployment.party_folder import PartyFolder


@dataclass(frozen=True)
class Failure:
    """A request to which no reply came."""

    reason: str


class Carrier(Protocol):
    """Brings the relay's requests to stations, and their replies back."""

    def send(self, party: str, request: Request) -> None: ...

    def receive(self) -> list[tuple[str, Reply | Failure]]:
        """The replies that have arrived; waits a moment if there are none."""


class Program(Protocol):
    """A program of a carrier that is running, or was."""

    def has_ended(self) -> bool: ...

    def why_it_ended(self) -> str:
        """In words for the party's operator."""


class Programs(Protocol):
    """The programs of a carrier that run beside the stations.

    Nodes connect to the hub.  Either program calls its station at the path it is given
    (`station_socket`), and ends when the block ends.
    """

    def version(self) -> str:
        """Name and version; `DataError` if it is not installed, or another version."""

    def hub(self, folder: PartyFolder, station: Path) -> AbstractContextManager[Program]:
        """The aggregator's program, once it accepts the nodes of all cards in its folder."""

    def node(self, folder: PartyFolder, station: Path) -> AbstractContextManager[Program]:
        """The program of any other party."""

    def start_job(self, folder: PartyFolder, job: Job, number: int) -> None:
        """Have the running hub start the relay of a job (`relay.relay_job`)."""
