"""The world of `claims`, deployed: hub, aggregator and hospitals run here, the insurer connects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tests.kit.claims as world
from tests.kit.waiting import comes_true

from pv4fad.cli.federation_demo import free_ports
from pv4fad.deployment.hub.carrier import HubCarrier
from pv4fad.deployment.new_party import NewParty, create_party
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.running import opened_station
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.store.key_sources import create_key_file
from pv4fad.store.sealing import Passphrase

INSURER = "insurer"
SCHEMA_TOML = """\
name = "claims"
[rows]
id = "ClaimId"
time = "Submitted"
label = "Fraud"
numbers = ["Amount"]
categories = ["Kind"]
[sides.patient]
holder = "Hospital"
id = "PatientId"
[sides.doctor]
holder = "Hospital"
id = "DoctorId"
[record]
id = "Person"
classes = ["ordinary", "watch", "blocked"]
"""


def make_folders(root: Path, limit: str) -> dict[str, PartyFolder]:
    """Of all parties, by name, with cards exchanged; the insurer's is root/insurer."""
    (port,) = free_ports(1)
    hub, schema = f"127.0.0.1:{port}", root / "schema.toml"
    schema.write_text(SCHEMA_TOML)
    world.claims().write_csv(root / "claims.csv")
    new = {
        AGGREGATOR: NewParty("aggregator", AGGREGATOR, hub),
        PAYMENT_NETWORK: NewParty(
            "payment-network", PAYMENT_NETWORK, hub, data=root / "claims.csv", schema=schema
        ),
    }
    for name, records in world.hospital_records().items():
        records.write_csv(root / f"{name}.csv")
        new[name] = NewParty(
            "bank",
            name,
            hub,
            data=root / f"{name}.csv",
            schema=schema,
            limit=parse_epsilon(limit),
        )
    folders = {
        name: PartyFolder(root / (INSURER if name == PAYMENT_NETWORK else name)) for name in new
    }
    key = create_key_file(root / f"{INSURER}.key")
    for name, folder in folders.items():
        create_party(folder.path, new[name], lambda: key)
        settings = folder.path / "party.toml"
        settings.write_text(f"workers = 0\n{settings.read_text()}")
    for folder in folders.values():
        for other in folders.values():
            folder.import_card(other.path / "card.json")
    return folders


@contextmanager
def running(folders: dict[str, PartyFolder], key: Passphrase) -> Iterator[None]:
    """All of them but the insurer, in threads."""
    ended = threading.Event()
    with ExitStack() as stack:
        threads = []
        for name, folder in folders.items():
            if name != PAYMENT_NETWORK:
                station = stack.enter_context(opened_station(folder, key, HubCarrier()))
                arguments = (folder, station, ended, lambda: None)
                threads.append(threading.Thread(target=HubCarrier().serve, args=arguments))
        for thread in threads:
            thread.start()
        try:
            hub = folders[AGGREGATOR].settings().address
            assert comes_true(lambda: is_open(hub))
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def is_open(address: tuple[str, int]) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError:
        return False
    return True
