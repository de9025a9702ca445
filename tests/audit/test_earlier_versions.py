"""Stores with stamps of earlier versions in their logs go on, and so does a ledger of version 3.

Those in `stamps_1` were written by the last program that made stamps of version 1 (commit d3b841e),
with the first four messages of the two and an expense between them; those in `stamps_2.json` by the
last one that made stamps of version 2 (commit ba2f6ac), with five messages, of which the bank did
not get the payment network's second.
"""

import contextlib
import json
import sqlite3
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.kit.hub_world import letter

from pv4fad.audit.catch_up import catch_up, mark_restored
from pv4fad.audit.log_file import LogFile
from pv4fad.audit.notary import Notary, known_keys
from pv4fad.audit.verify import verify_logs
from pv4fad.audit.witness import Witness
from pv4fad.errors import DataError, StoreError
from pv4fad.privacy.ledger import Restored, Spent, note_restored, read_ledger, spent_in_all
from pv4fad.protocol.count.messages import NoisySums
from pv4fad.protocol.identity import stored_identity
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase
from pv4fad.store.store import MemoryStore

WRITTEN = Path(__file__).parent / "stamps_1"
BANK, NETWORK = "bank01", "payment-network"
NOW = datetime(2026, 11, 18, tzinfo=UTC)


@pytest.fixture
def stores(tmp_path):
    with contextlib.ExitStack() as opened:
        found = {}
        for name in (BANK, NETWORK):
            (tmp_path / name).mkdir(mode=0o700)
            with contextlib.closing(sqlite3.connect(tmp_path / name / "store.db")) as connection:
                connection.executescript((WRITTEN / f"{name}.sql").read_text())
            store = DiskStore.open(tmp_path / name, Passphrase("correct horse battery"))
            found[name] = opened.enter_context(store)
        yield found


def notaries(stores):
    identities = {name: stored_identity(store) for name, store in stores.items()}
    keys = known_keys(one.public() for one in identities.values())
    return {name: Notary(store, identities[name], keys) for name, store in stores.items()}


def test_a_ledger_of_version_3_says_what_it_said(stores):
    ledger = read_ledger(stores[BANK])
    assert (ledger.spent, ledger.limit) == (Fraction(1, 3), 3)
    assert ledger.delta.total == Fraction(1, 2**30)
    assert spent_in_all(stores[BANK]) == Spent.of(Fraction(1, 3), Fraction(1, 2**30))


def test_chains_of_version_1_go_on_and_fit_together(stores):
    by = notaries(stores)
    for number, (sender, receiver) in enumerate([(BANK, NETWORK), (NETWORK, BANK)], 4):
        message = letter(sender, receiver, np.array([number], np.uint32), number)
        assert by[receiver].opened(by[sender].stamped(message)) == message
    logs = [LogFile.of(store, stored_identity(store)) for store in stores.values()]
    found = verify_logs(logs)
    assert found.faults == ()
    assert found.n_messages == 6
    (sent,) = (chain for chain in logs[0].chains if chain.direction == "sent")
    assert [one.spent is None for one in sent.messages] == [True, True, False]


def test_what_stamps_of_version_1_do_not_say_is_not_guessed(stores):
    """A store that has lost an expense, and messages that show no amount."""
    identities = {name: stored_identity(store) for name, store in stores.items()}
    key = identities[BANK].public().signing_key
    code = mark_restored(stores[BANK])
    said = Witness.of(stores[NETWORK], identities[NETWORK], BANK, key, code)
    keys = known_keys(one.public() for one in identities.values())
    with stores[BANK].transaction() as tx:  # as if the store were from before the expense
        for name in tx.keys("party/Entry/sent/"):
            if name.endswith("/2"):
                tx.delete(name)
        tx._store._erase("permanent/ledger/000000001")
    with (
        pytest.raises(StoreError, match="does not say what was spent: this store cannot go on"),
        stores[BANK].transaction() as tx,
    ):
        catch_up(tx, identities[BANK], keys, [said], needed=[NETWORK], now=NOW)


def test_a_ledger_that_was_restored_counts_the_larger_amount(stores):
    for amount, spent in ((Fraction(1, 4), Fraction(1, 3)), (Fraction(2), Fraction(2))):
        with stores[BANK].transaction() as tx:
            note_restored(tx, Restored(7, "00" * 32, amount, (NETWORK,), NOW))
        assert read_ledger(stores[BANK]).spent == spent


# Version 2.


@pytest.fixture
def stores_2():
    written = json.loads(WRITTEN.with_name("stamps_2.json").read_text())
    return {
        name: MemoryStore(name, {key: bytes.fromhex(value) for key, value in records.items()})
        for name, records in written.items()
    }


def logs_of(stores):
    return {name: LogFile.of(store, stored_identity(store)) for name, store in stores.items()}


def test_chains_of_version_2_go_on_and_say_of_the_earlier_messages_what_they_said(stores_2):
    """Only the message that a stamp names is confirmed."""
    by = notaries(stores_2)
    for number, (sender, receiver) in enumerate([(NETWORK, BANK), (BANK, NETWORK)], 5):
        message = letter(sender, receiver, np.array([number], np.uint32), number)
        assert by[receiver].opened(by[sender].stamped(message)) == message
    logs = logs_of(stores_2)
    (fault,) = verify_logs(list(logs.values())).faults
    assert fault.party == NETWORK
    assert "its message 2 to bank01" in fault.what
    (sent,) = (chain for chain in logs[BANK].chains if chain.direction == "sent")
    assert [one.confirms for one in sent.messages] == [{1}, {3}, {3, 4}]


def test_ids_that_earlier_stamps_did_not_sign_blame_nobody_else(stores_2):
    logs = logs_of(stores_2)
    chains = [
        chain.model_copy(
            update={
                "messages": tuple(
                    one.model_copy(update={"message": f"run9/t/0/{NoisySums.kind}/0/{BANK}/x"})
                    for one in chain.messages
                )
            }
        )
        for chain in logs[NETWORK].chains
    ]
    logs[NETWORK] = logs[NETWORK].model_copy(update={"chains": tuple(chains)})
    assert BANK not in {fault.party for fault in verify_logs(list(logs.values())).faults}


@pytest.mark.parametrize("commitment", ["ab" * 32, "00" * 32])
@pytest.mark.parametrize("version", [2, 3])
def test_a_commitment_that_the_stamp_does_not_sign_is_none(stores_2, version, commitment):
    """Whoever has the message could write one beside it; zeros are what is signed for none."""
    by = notaries(stores_2)
    message = letter(NETWORK, BANK, np.array([0], np.uint32), 5)
    by[BANK].opened(by[NETWORK].stamped(message))
    logs = logs_of(stores_2)
    (chain,) = (one for one in logs[BANK].chains if one.direction == "received")
    signed = chain.messages[-1 if version == 3 else 0]
    changed = signed.model_copy(update={"commitment": commitment})
    assert changed.names_itself == (version == 3)
    key = bytes.fromhex(chain.key)
    assert changed.is_signed_by(key, NETWORK, BANK) == (version == 2 or commitment[0] == "0")
    log = logs[BANK].model_copy(
        update={"chains": (chain.model_copy(update={"messages": (changed,)}),)}
    )
    assert log.commitments(NETWORK, key, changed.message.split("/")[0]) == set()


def test_a_log_of_an_earlier_version_is_refused_with_what_to_do(stores_2, tmp_path):
    file = tmp_path / "log.json"
    for version in (1, 2, 3):
        text = logs_of(stores_2)[BANK].to_json().replace('"version": 4', f'"version": {version}', 1)
        file.write_text(text)
        with pytest.raises(DataError, match=r"earlier version.*export it again"):
            LogFile.read(file)
