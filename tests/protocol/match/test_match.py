"""The join is shared bin by bin: u − s is 1 just where the plain join says so."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kit.forest_case import UNKNOWN
from tests.kit.recording import Recording, recorded_run
from tests.kit.views import bank_key
from tests.kit.world import (
    bank_name,
    check_equal_to_the_trusted_third_party,
    make_world,
)

from pv4fad.he.keys import Decryptor
from pv4fad.he.ring import Ring
from pv4fad.protocol.match.state import BankShares, OpenedBlock, PlacedTable


@pytest.fixture(scope="module")
def run() -> Recording:
    return recorded_run()


def plain_join(run: Recording, bank: int, table_id: str) -> np.ndarray:
    """(atoms, bins): which account of the payment network is at this bank with which atom."""
    world = run.world
    table = world.record(world.federation.payment_network, PlacedTable, table_id)
    joined = np.zeros(
        (world.parameters.sizes.n_atoms, world.parameters.table(table_id).layout.n_bins), np.int64
    )
    for key, where in zip(table.keys, table.bins, strict=True):
        owner, bare = world.case.keys[key]
        if owner in (bank, UNKNOWN) and (bank, bare) in world.case.records:
            joined[world.case.records[bank, bare], where] = 1
    return joined


def shared_join(run: Recording, bank: int, table_id: str) -> np.ndarray:
    """u − s modulo t, s from what the payment network keeps under the bank's key."""
    world, name = run.world, bank_name(bank)
    network, secret = world.federation.payment_network, bank_key(run, name)
    ring, decryptor = Ring.of(secret.ring), Decryptor(secret)
    u = world.record(network, OpenedBlock, name, table_id, 0).u.astype(np.int64)
    data = world.record(network, BankShares, name, table_id, 0).data
    level = secret.ring.n_data_primes
    size = ring.ciphertext_bytes(level)
    ciphertexts = [data[start : start + size] for start in range(0, len(data), size)]
    opened = [decryptor.decrypt(ring.load(one, level)) for one in ciphertexts]
    s = np.concatenate(opened).reshape(len(u), -1).astype(np.int64)[:, : u.shape[1]]
    return (u - s) % world.parameters.plain_modulus


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize("bank", [0, 1])
def test_every_bin_of_every_atom_is_shared_as_the_plain_join_has_it(run, bank, broadcast):
    table_id = "broadcast" if broadcast else bank_name(bank)
    joined = plain_join(run, bank, table_id)
    assert joined.any()
    assert np.array_equal(shared_join(run, bank, table_id), joined)


def test_what_is_not_there_matches_nothing(run):
    """The run has empty bins, ids that no bank has, ids at another bank, and outsiders."""
    joined = plain_join(run, 0, "broadcast")
    table = run.world.record(run.world.federation.payment_network, PlacedTable, "broadcast")
    assert (~joined[:, table.bins].any(axis=0)).sum() > 5, "all accounts match"
    assert len(table.bins) < joined.shape[1], "no bin is empty"


def test_several_accounts_of_a_bank_share_a_bin():
    """3000 accounts in some thousand bins: up to twenty in a bin, each found just where it is."""
    world = make_world(seed=4, n_banks=1, more_accounts=3000)
    world.train()
    check_equal_to_the_trusted_third_party(world)


@pytest.mark.slow
def test_a_bank_has_more_accounts_than_the_table_has_bins():
    world = make_world(seed=5, n_banks=1, more_accounts=40_000)
    assert world.parameters.tables[0].layout.n_bins < 40_000
    world.train()
    check_equal_to_the_trusted_third_party(world)
