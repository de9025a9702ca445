"""A small federation on disk whose process is killed: what runs in that process.

Everything a party needs to go on is in its folder.  All that is sent is noted, by id and digest,
in a file that only grows.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from tests.kit.class_world import ClassWorld, make_class_world
from tests.kit.world import KnownNoiseBank, World, make_world

from pv4fad.protocol.identity import Identity, stored_identity
from pv4fad.protocol.state import Proposal
from pv4fad.protocol.wire import digest, message_id, read_header
from pv4fad.store.disk import DiskStore
from pv4fad.store.records import Records, run_ids, stored
from pv4fad.store.sealing import Passphrase

PARTIES = ("payment-network", "aggregator", "bank01", "bank02")
PASSPHRASE = Passphrase("correct horse battery")
SEED = 6


@dataclass(frozen=True)
class Kill:
    """The process dies at its n-th commit: just before it, or just after."""

    commit: int
    after: bool


def create_stores(folder: Path) -> None:
    """A store for each party; the banks' hold their identities."""
    for name in PARTIES:
        store = DiskStore.create(folder / name, name, PASSPHRASE)
        with store, store.transaction() as tx:
            Records.of_party(tx).put(Identity.generate(name))


def open_world(folder: Path, model: str) -> tuple[World | ClassWorld, np.ndarray]:
    """The parties with their stores as they are on disk, and the noise that the banks add."""
    stores = {name: DiskStore.open(folder / name, PASSPHRASE) for name in PARTIES}
    parties = {
        "bank_class": KnownNoiseBank,
        "store_of": stores.__getitem__,
        "identity_of": lambda name: stored_identity(stores[name]),
    }
    rng = np.random.default_rng(SEED)
    world: World | ClassWorld
    if model == "paper":
        world = make_world(SEED, n_banks=2, epsilon=Fraction(1), noise="per-bank", **parties)
        noise = world.inject_noise(rng)
    else:
        world = make_class_world(SEED, epsilon=Fraction(1), honest_banks=2, **parties)
        shares = rng.integers(-20, 21, (2, world.parameters.sizes.n_sums))
        for bank, share in zip(world.federation.banks, shares, strict=True):
            bank.chosen_noise = share
        noise = shares.sum(axis=0)
    network = stores["payment-network"]
    for run_id in run_ids(network):
        world.parameters = stored(network, run_id, Proposal).parsed()
    return world, noise


def close(world: World | ClassWorld) -> None:
    federation = world.federation
    for party in (federation.payment_network, federation.aggregator, *federation.banks):
        party.store.close()


def train_or_resume(folder: Path, model: str, kill: Kill | None) -> None:
    """Carry the run to its end, or die."""
    if kill is not None:
        _die_at(kill)
    world, _ = open_world(folder, model)
    log = os.open(folder / "sent", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    federation = world.federation
    for party in (federation.payment_network, federation.aggregator, *federation.banks):
        party.handle = _noting(party.handle, log)
    if run_ids(federation.payment_network.store):
        federation.resume()
    else:
        world.train()
    close(world)


def _noting(handle: Callable[[bytes], list[bytes]], log: int) -> Callable[[bytes], list[bytes]]:
    """Notes the id and the digest of every message before it is handled."""

    def noting(data: bytes) -> list[bytes]:
        line = f"{message_id(read_header(data))} {digest(data).hex()}\n"
        os.write(log, line.encode())
        return handle(data)

    return noting


def _die_at(kill: Kill) -> None:
    commit, done = DiskStore._commit, [0]

    def dying(store: DiskStore) -> None:
        done[0] += 1
        if done[0] == kill.commit and not kill.after:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(store)
        if done[0] == kill.commit:
            os.kill(os.getpid(), signal.SIGKILL)

    DiskStore._commit = dying
