"""`pv4fad audit` on a run that was really trained and scored: whatever is changed is found."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.kit.played import command, write_telling_data
from tests.kit.small_federation import PASSPHRASE

from pv4fad.audit.log_file import LogFile, LoggedMessage
from pv4fad.audit.stamp import STAMP_BYTES, Stamp
from pv4fad.hashing.table_size import TableLayout
from pv4fad.lead.data import load_rows
from pv4fad.lead.prepare import read_training_record
from pv4fad.payments.challenge import read_partition, training_split
from pv4fad.privacy.ledger import Restored, note_restored, raw_entries
from pv4fad.protocol.identity import stored_identity
from pv4fad.protocol.state import Proposal, parameters_of
from pv4fad.store.disk import DiskStore
from pv4fad.store.records import Records, run_ids
from pv4fad.store.sealing import Passphrase
from pv4fad.store.store import MemoryStore
from pv4fad.verify.replay import replay

S, A, ONE, TWO = PARTIES = ("payment-network", "aggregator", "bank01", "bank02")
Log = dict[str, Any]


@pytest.fixture
def pv4fad(monkeypatch, command_line):
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
    return command_line


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """data: of all parties; run: trained and scored; logs: of all parties."""
    root = tmp_path_factory.mktemp("audit")
    data, run = write_telling_data(root / "data"), root / "run"
    options = ("--epsilon", 1, "--alert-share", 0.1, "--seed", 33, "--workers", 0)
    command("train", data, "--out", run, *options)
    command("score", run, data, "--out", run / S / "predictions.csv", "--workers", 0)
    (root / "logs").mkdir()
    for party in PARTIES:
        command("audit", "export", run / party, "--out", root / "logs" / f"{party}.json")
    return root


@pytest.fixture
def logs(root, tmp_path) -> Path:
    return shutil.copytree(root / "logs", tmp_path / "logs")


def chain(log: Log, direction: str, other: str) -> list[Log]:
    (found,) = (c for c in log["chains"] if (c["direction"], c["other"]) == (direction, other))
    messages: list[Log] = found["messages"]
    return messages


def test_the_logs_of_an_honest_run_fit_together(root, pv4fad):
    code, text, _ = pv4fad("audit", "verify", root / "run", "--json")
    found = json.loads(text)
    assert code == 0
    assert found["faults"] == []
    assert {one["name"] for one in found["parties"]} == set(PARTIES)
    assert found["messages"] > 30
    assert found["messages"] / 2 < found["confirmed"] < found["messages"]
    code, text, _ = pv4fad("audit", "verify", *sorted((root / "logs").iterdir()))
    assert code == 0
    assert "all logs fit together" in text
    assert f"{found['messages']:,} messages" in text


def test_ledgers_are_compared_with_the_epsilon_of_the_run(root, pv4fad, tmp_path):
    run = shutil.copytree(root / "run", tmp_path / "run")
    document = json.loads((run / "run.json").read_text())
    document["parameters"]["epsilon"] = "2"
    (run / "run.json").write_text(json.dumps(document))
    code, text, _ = pv4fad("audit", "verify", run)
    assert code == 1
    for bank in (ONE, TWO):
        said = f"{bank} and payment-network: by run.json run {document['run_id']} has ε = 2, Δ = 2"
        assert said in text
    assert text.count("and in the ledger ε = 1, Δ = 2") == 2


def test_a_ledger_that_was_restored_is_shown_and_is_no_fault(root, logs, pv4fad):
    file = logs / f"{ONE}.json"
    log = json.loads(file.read_text())
    lost = Restored(9, "00" * 32, Fraction(1), (S,), datetime(2026, 1, 3, tzinfo=UTC))
    with MemoryStore(ONE).transaction() as tx:
        note_restored(tx, lost)
        log["ledger"]["entries"] += [entry.decode() for entry in raw_entries(tx)]
    sign_and_write(root, file, log)
    code, text, _ = pv4fad("audit", "verify", *sorted(logs.iterdir()))
    assert code == 0
    assert "bank01: its ledger was restored on 2026-01-03: entries 3 to 9 are lost" in text
    assert "not checked: no log of another party that was given shows that" in text
    code, text, _ = pv4fad("audit", "verify", file, "--json")
    (note,) = json.loads(text)["notes"]
    assert (code, note["party"]) == (0, ONE)


def test_one_log_alone_is_checked_too(root, pv4fad):
    code, text, _ = pv4fad("audit", "verify", root / "logs" / f"{ONE}.json")
    assert code == 0
    assert "all logs fit together" in text


def test_parties_without_a_log_are_listed_with_the_keys_that_they_are_judged_by(root, pv4fad):
    own = {}
    for name in (S, A):
        _, text, _ = pv4fad("audit", "verify", root / "logs" / f"{name}.json", "--json")
        (own[name],) = (one["fingerprint"][:16] for one in json.loads(text)["parties"])
    code, text, _ = pv4fad("audit", "verify", root / "logs" / f"{ONE}.json")
    assert code == 0
    for name, key in own.items():
        assert f"{name}: no log, key {key} in that of {ONE}" in text
    assert f"{ONE}: no log" not in text


def test_a_log_has_no_secret_in_it(root):
    """No key, no salt: with the salt, whoever guesses a message could see that it is right."""
    for party in PARTIES:
        text = (root / "logs" / f"{party}.json").read_text()
        with DiskStore.open(root / "run" / party, Passphrase(PASSPHRASE)) as store:
            identity = stored_identity(store)
            assert identity is not None
            log = LogFile.of(store, identity)
            stamps = [store.get(name)[-STAMP_BYTES:] for name in store.keys("party/Entry/")]
        assert log == LogFile.read(root / "logs" / f"{party}.json")
        secrets = [identity.signing_secret, identity.pairwise_secret]
        salts = [Stamp.from_bytes(one).salt for one in stamps]
        assert len(set(salts)) > 3
        assert not [one for one in (*secrets, *salts) if one.hex() in text]


def sign_and_write(root: Path, file: Path, log: Log) -> None:
    """As the log's owner can."""
    with DiskStore.open(root / "run" / file.stem, Passphrase(PASSPHRASE)) as store:
        identity = stored_identity(store)
    assert identity is not None
    file.write_text(LogFile.model_validate_json(json.dumps(log)).signed_by(identity).to_json())


def changed_by_sender(log: Log) -> None:
    chain(log, "sent", ONE)[1]["content"] = "00" * 32


def changed_by_receiver(log: Log) -> None:
    chain(log, "received", S)[1]["content"] = "00" * 32


def changed_time(log: Log) -> None:
    chain(log, "sent", ONE)[2]["time_ms"] += 1


def left_out_at_the_end(log: Log) -> None:
    del chain(log, "sent", ONE)[-2:]


def left_out_in_between(log: Log) -> None:
    del chain(log, "sent", ONE)[1]


def left_out_by_receiver(log: Log) -> None:
    del chain(log, "received", S)[1]


def moved_by_receiver(log: Log) -> None:
    messages = chain(log, "received", S)
    messages[0], messages[1] = messages[1], messages[0]


def moved_by_sender(log: Log) -> None:
    messages = chain(log, "sent", ONE)
    messages[0], messages[1] = messages[1], messages[0]


def put_back(log: Log) -> None:
    """Everything since its second message to anybody is forgotten."""
    for one in log["chains"]:
        del one["messages"][2:]


def ledger_put_back(log: Log) -> None:
    log["ledger"]["entries"].pop()


def ledger_changed(log: Log) -> None:
    entries = log["ledger"]["entries"]
    entries[-1] = entries[-1].replace('"epsilon": "1"', '"epsilon": "1/2"')


def other_commitment(log: Log) -> None:
    proposal = chain(log, "received", S)[0]
    assert len(proposal["commitment"]) == 64
    proposal["commitment"] = "ab" * 32


def other_release(log: Log) -> None:
    """It says that the other bank released sums for which that one's ledger has no expense."""
    for one in log["chains"]:
        if one["direction"] == "received":
            last = one["messages"][-1]
            last["message"] = last["message"].replace(last["message"].split("/")[0], "run9")


def says_it_saw_another(log: Log) -> None:
    """Not signed by it any more, too: the signature is over what it saw."""
    chain(log, "sent", S)[-1]["seen"]["head"] = "cd" * 32


CHANGES: list[tuple[Callable[[Log], None], str, str, str]] = [
    (changed_by_sender, S, S, "in its log message 2 to bank01 is not what it signed"),
    (changed_by_receiver, ONE, ONE, "in its log message 2 of payment-network is not what was"),
    (changed_time, S, S, "in its log message 3 to bank01 is not what it signed"),
    (left_out_at_the_end, S, S, "its log does not have message"),
    (left_out_in_between, S, S, "its log has no message 2 to bank01"),
    (left_out_by_receiver, ONE, ONE, "is not in its log, and bank01 has confirmed it"),
    (moved_by_receiver, ONE, ONE, "its log has message 1 of payment-network after message 2"),
    (moved_by_sender, S, S, "its log has no message 1 to bank01"),
    (put_back, TWO, TWO, "it left it out, or its store was put back"),
    (put_back, S, S, "it left it out, or its store was put back"),
    (ledger_put_back, ONE, ONE, "its ledger has 1 entries, and had 2 in message"),
    (ledger_changed, ONE, ONE, "the first 2 entries of its ledger are not those of message"),
    (other_commitment, ONE, ONE, "in its log message 1 of payment-network is not what was"),
    (other_commitment, A, A, "in its log message 1 of payment-network is not what was"),
    (other_release, S, S, "is not what was signed"),
    (says_it_saw_another, ONE, ONE, "is not what it signed"),
]


@pytest.mark.parametrize("case", CHANGES, ids=[f"{one[0].__name__}-{one[1]}" for one in CHANGES])
def test_what_a_party_changes_is_found_and_it_is_named(root, logs, pv4fad, case):
    change, whose, blamed, what = case
    file = logs / f"{whose}.json"
    log = json.loads(file.read_text())
    change(log)
    sign_and_write(root, file, log)
    code, text, error = pv4fad("audit", "verify", *sorted(logs.iterdir()), "--json")
    faults = json.loads(text)["faults"]
    assert code == 1
    assert "the logs do not fit together" in error
    assert [one for one in faults if one["party"] == blamed and what in one["what"]], faults
    assert {one["party"] for one in faults} == {blamed}


def signed_again(root: Path, message: Log, receiver: str, **other: bytes) -> None:
    """The payment network signs another content or commitment in place of a message's."""
    with DiskStore.open(root / "run" / S, Passphrase(PASSPHRASE)) as store:
        identity = stored_identity(store)
    message |= {name: value.hex() for name, value in other.items()}
    stamp = LoggedMessage.model_validate(message).stamp()
    content = bytes.fromhex(message["content"])
    names = (S, receiver, message["message"])
    message["signature"] = stamp.signed(identity.signing_secret, *names, content).signature.hex()


def test_a_sender_who_signs_two_messages_is_found(root, logs, pv4fad):
    """It tells its own log another story, well signed: only the other's log can show it."""
    file = logs / f"{S}.json"
    log = json.loads(file.read_text())
    last = chain(log, "sent", ONE)[-1]
    signed_again(root, last, ONE, content=b"\x07" * 32)
    sign_and_write(root, file, log)
    code, text, _ = pv4fad("audit", "verify", *sorted(logs.iterdir()), "--json")
    (fault,) = json.loads(text)["faults"]
    assert code == 1
    assert fault["party"] == S
    assert f"it signed two different messages {last['number']} to bank01" in fault["what"]
    code, text, _ = pv4fad("audit", "verify", file)
    assert code == 1
    assert f"payment-network: message {last['number']} of payment-network to bank01" in text
    assert "in its log is not the one that bank01 has confirmed" in text


@pytest.mark.parametrize("other", [b"\x07" * 32, bytes(32)], ids=["another", "none"])
def test_a_payment_network_that_commits_to_different_things_is_found(root, logs, pv4fad, other):
    """With the logs of two banks, under its signature in both."""
    file = logs / f"{TWO}.json"
    log = json.loads(file.read_text())
    (proposals,) = (c for c in log["chains"] if (c["direction"], c["other"]) == ("received", S))
    proposal = proposals["messages"][0]
    signed_again(root, proposal, TWO, commitment=other)
    log["chains"] = [proposals | {"messages": [proposal]}]
    sign_and_write(root, file, log)
    code, text, _ = pv4fad("audit", "verify", file, logs / f"{ONE}.json", "--json")
    (fault,) = json.loads(text)["faults"]
    assert (code, fault["party"]) == (1, S)
    assert "it has shown different commitments to bank01, bank02 (by its key" in fault["what"]
    # With its own store, the one that is in there is not believed.
    code, _, error = pv4fad("audit", "replay", root / "run", root / "data", "--log", file)
    assert code == (1 if any(other) else 2)
    said = "holds another commitment of run" if any(other) else "of bank02 has no proposal of run"
    assert said in error.replace("\n", " ")


def test_commitments_under_a_made_up_key_make_the_payment_network_not_guilty(root, logs, pv4fad):
    """A bank signs them itself, with its own key, beside the messages that are there."""
    file = logs / f"{TWO}.json"
    log = json.loads(file.read_text())
    with DiskStore.open(root / "run" / TWO, Passphrase(PASSPHRASE)) as store:
        identity = stored_identity(store)
    proposal, made_up = chain(log, "received", S)[0], []
    for number in (1, 2):
        before = LoggedMessage.model_validate(made_up[-1]).head.hex() if made_up else "00" * 32
        changed = proposal | {"number": number, "before": before, "commitment": f"0{number}" * 32}
        message, content = proposal["message"], bytes.fromhex(proposal["content"])
        stamp = LoggedMessage.model_validate(changed).stamp()
        again = stamp.signed(identity.signing_secret, S, TWO, message, content)
        made_up.append(changed | {"signature": again.signature.hex()})
    key = identity.public().signing_key.hex()
    log["chains"].append({"direction": "received", "other": S, "key": key, "messages": made_up})
    sign_and_write(root, file, log)
    code, text, _ = pv4fad("audit", "verify", *sorted(logs.iterdir()), "--json")
    faults = json.loads(text)["faults"]
    assert code == 1
    assert any("different commitments" in one["what"] for one in faults)
    assert {one["party"] for one in faults} <= {TWO, f"{TWO} and {S}"}


def test_a_limit_that_was_exceeded_is_found(root, logs, pv4fad):
    """A bank whose program did not keep to its own limit."""
    file = logs / f"{ONE}.json"
    log = json.loads(file.read_text())
    limit, expense = log["ledger"]["entries"]
    log["ledger"]["entries"] = [limit.replace('"epsilon": "1"', '"epsilon": "1/2"'), expense]
    log["chains"] = []
    sign_and_write(root, file, log)
    code, text, _ = pv4fad("audit", "verify", file)
    assert code == 1
    assert "its limit was exceeded: run" in text
    assert "took ε = 1 of 0.5 left" in text


def test_a_release_that_is_not_in_the_ledger_is_found(root, logs, pv4fad):
    file = logs / f"{ONE}.json"
    log = json.loads(file.read_text())
    del log["ledger"]["entries"][1]
    sign_and_write(root, file, log)
    _, text, _ = pv4fad("audit", "verify", file)
    assert "it released sums of run" in text
    assert "and its ledger has no expense for it" in text


@pytest.mark.parametrize("case", CHANGES, ids=[f"{one[0].__name__}-{one[1]}" for one in CHANGES])
def test_what_was_changed_after_the_export_is_held_against_nobody(root, logs, pv4fad, case):
    """By whoever carries the log: the file is named, and refused wherever it is read."""
    change, whose, _, _ = case
    file = logs / f"{whose}.json"
    log = json.loads(file.read_text())
    change(log)
    file.write_text(json.dumps(log))
    for command_ in (
        ("verify", *sorted(logs.iterdir())),
        ("replay", root / "run", root / "data", "--log", file),
    ):
        code, text, error = pv4fad("audit", *command_)
        assert (code, text) == (2, "")
        said = " ".join(error.replace(str(file), "FILE").split())
        assert "FILE has been changed since it was exported" in said
        assert not [party for party in PARTIES if party in said.replace(str(logs), "")]


def test_what_is_no_log_is_refused(root, logs, pv4fad, tmp_path):
    file = logs / f"{ONE}.json"
    good = file.read_text()
    wrong = {
        "not JSON": "is not a log of messages",
        good[:-10]: "is not a log of messages",
        good.replace('"pv4fad log"', '"other"'): "format",
        good.replace('"signature": "', '"signature": "zz', 1): "signature: must have the form",
        good.replace('"party": "bank01"', '"party": "bank02"'): "identity of bank01 for bank02",
    }
    for text, reason in wrong.items():
        file.write_text(text)
        code, _, error = pv4fad("audit", "verify", file)
        assert code == 2
        assert reason in error.replace("\n", " ")
    code, _, error = pv4fad("audit", "verify", tmp_path / "nothing")
    assert (code, "neither a log, nor the folder" in error.replace("\n", " ")) == (2, True)
    code, _, error = pv4fad("audit", "verify", *[root / "logs" / f"{TWO}.json"] * 2)
    assert (code, "two logs of bank02 were given" in error) == (2, True)


def test_a_replay_opens_the_commitment(root, pv4fad):
    files = [root / "logs" / f"{party}.json" for party in (ONE, TWO, A)]
    others = [word for file in files for word in ("--log", file)]
    code, text, _ = pv4fad("audit", "replay", root / "run", root / "data", *others, "--json")
    found = json.loads(text)
    assert code == 0
    parts = ("commitment", "rows", "counted", "parameters", "model")
    assert [found[name] for name in parts] == [True] * len(parts)
    assert found["held_by"] == [ONE, TWO, A]
    logged = {chain(json.loads(file.read_text()), "received", S)[0]["commitment"] for file in files}
    assert logged == {found["committed"]}


OTHERWISE = {
    "epsilon": "2",
    "bound": 2,
    "honest_banks": 2,
    "metered": True,
    "blocks_per_message": 3,
    "schema_digest": "0" * 64,
}


def test_a_replay_finds_what_was_proposed_otherwise_than_committed_to(root, pv4fad, tmp_path):
    """A payment network that commits to honest settings, and proposes others to the banks."""
    own = shutil.copytree(root / "run" / S, tmp_path / S)
    with DiskStore.open(own, Passphrase(PASSPHRASE)) as store:
        (run_id,) = run_ids(store)
        with store.transaction() as tx:
            honest = parameters_of(Records(tx, run_id))
        rows = load_rows(
            read_training_record(store, run_id).data_schema,
            read_partition(training_split(root / "data")).transactions,
            labels_required=True,
        )
        assert replay(store, honest, rows).holds
        for name, value in OTHERWISE.items():
            found = replay(store, honest.model_copy(update={name: value}), rows)
            assert (found.parameters, found.holds) == (False, False), name
            assert (found.commitment, found.counted, found.model) == (True, True, True)
        plan = honest.tables[0].model_copy(update={"layout": TableLayout.for_accounts(10**5, 1)})
        found = replay(store, honest.model_copy(update={"tables": (plan,)}), rows)
        assert not found.parameters
        metered = honest.model_copy(update={"metered": True})
        with store.transaction() as tx:
            Records(tx, run_id).put(Proposal(metered.model_dump_json().encode()))
    code, text, _ = pv4fad("audit", "replay", own, root / "data")
    assert code == 1
    assert re.search(r"parameters +DOES NOT HOLD", text)


def test_a_replay_with_other_data_does_not_hold(root, pv4fad, tmp_path):
    (source,) = (root / "data" / "scenario01" / "train").rglob("*ransaction*.csv")
    rows = pl.read_csv(source, infer_schema=False)
    file = tmp_path / "rows.csv"
    rows.head(rows.height - 1).write_csv(file)
    code, text, _ = pv4fad("audit", "replay", root / "run", file)
    assert code == 1
    assert "DOES NOT HOLD" in text
    assert "not tried" in text
    assert "own record of its commitment only: give the logs" in text
    own = root / "logs" / f"{S}.json"
    code, _, error = pv4fad("audit", "replay", root / "run", file, "--log", own)
    assert (code, "payment-network has no proposal of run" in error.replace("\n", " ")) == (2, True)
    code, _, error = pv4fad("audit", "replay", root / "run" / ONE, file)
    assert (code, "the lead of the run has the record" in error) == (2, True)
