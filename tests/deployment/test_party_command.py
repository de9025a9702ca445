"""`pv4fad party init`, `join` and `check`, as three organisations use them."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import time
from contextlib import contextmanager

import polars as pl
import pytest
from tests.kit.in_threads import any_certificate, transactions_of, write_data
from tests.kit.small_federation import PASSPHRASE

from pv4fad.deployment.card import PartyCard, read_card
from pv4fad.deployment.certificates import new_certificate
from pv4fad.deployment.party_folder import KEY_FILE, PartyFolder
from pv4fad.deployment.status import Journal, new_status
from pv4fad.errors import DataError, ParameterError
from pv4fad.lead.settings import read_options
from pv4fad.payments.convert import Conversion, convert
from pv4fad.protocol.identity import Identity


@pytest.fixture
def pv4fad(monkeypatch, command_line):
    """The command line: exit code and output."""
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)

    def run(*arguments):
        code, out, err = command_line(*arguments)
        return code, out + err

    return run


@pytest.fixture
def parties(pv4fad, tmp_path):
    """Three folders with cards exchanged; and the data."""
    scenario = write_data(tmp_path / "data", ["bank01"])
    accounts = scenario / "train" / "bank01" / "bank_dataset.csv"
    train, new = transactions_of(scenario, "train"), transactions_of(scenario, "test")
    roles = {
        "a": ("aggregator",),
        "s": ("payment-network", "--data", train, "--new-transactions", new, "--epsilon", "1.0"),
        "b": ("bank", "--name", "bank01", "--data", accounts, "--limit", "3"),
    }
    for folder, (role, *more) in roles.items():
        code, output = pv4fad("party", "init", tmp_path / folder, "--role", role, *more)
        assert code == 0, output
        assert read_card(tmp_path / folder / "card.json").fingerprint in output
    cards = [tmp_path / folder / "card.json" for folder in roles]
    for folder in roles:
        code, output = pv4fad("party", "join", tmp_path / folder, *cards)
        assert code == 0, output
    return tmp_path, accounts


def test_three_new_parties_are_ready(parties, pv4fad):
    root, _ = parties
    for folder in "asb":
        code, output = pv4fad("party", "check", root / folder)
        assert code == 0, output
        assert "│ wrong │" not in output
    assert "ε = 1, 0.2 % of payments expected" in pv4fad("party", "check", root / "s")[1]
    output = unwrapped(pv4fad("party", "check", root / "b")[1])
    assert unwrapped("ε spent 0 of 3") in output
    assert unwrapped("relies on at most 1 of 1 banks, itself included") in output


def test_the_check_says_on_which_banks_it_relies_and_knows_all_of_them(parties, pv4fad):
    root, _ = parties
    settings = root / "b" / "party.toml"
    before = settings.read_text()
    settings.write_text(before + '[policy]\nrelies-on = ["bank07"]\nhonest-share = 0.25\n')
    code, output = pv4fad("party", "check", root / "b")
    assert code == 1
    assert unwrapped("relies-on names bank07, whose cards are not here") in unwrapped(output)
    settings.write_text(before + "[policy]\nrelies-on = []\nepsilon = 0.1\n")
    code, output = pv4fad("party", "check", root / "b")
    assert code == 0
    assert unwrapped("and these must be among bank01") in unwrapped(output)
    assert PartyFolder(root / "b").settings().policy.epsilon == "0.1"
    settings.write_text(before + "[policy]\nhonest-share = 2\n")
    code, output = pv4fad("party", "check", root / "b")
    assert code == 2
    assert unwrapped("honest_share: must be at most 1") in unwrapped(output)
    settings.write_text(before)


@pytest.mark.parametrize(
    ("line", "expected"),
    [("alert-share = 0.01", "was trained for 0.002"), ("alert-share = 0", "greater than 0")],
)
def test_an_alert_share_that_cannot_be_is_found_before_a_run(parties, pv4fad, line, expected):
    settings = parties[0] / "s" / "party.toml"
    settings.write_text(f"{line}\n{settings.read_text()}")
    code, output = pv4fad("party", "check", parties[0] / "s")
    assert code in (1, 2)
    assert unwrapped(expected) in unwrapped(output)


def test_a_bank_alone_is_told_how_many_accounts_each_class_has(parties, pv4fad):
    """As its rules decide; nothing of it is on the card."""
    root, accounts = parties
    flags = pl.read_csv(accounts, infer_schema=False)["Flags"].str.zfill(2)
    output = unwrapped(pv4fad("party", "check", root / "b")[1])
    n_frozen = (flags == "07").sum()
    assert n_frozen > 0
    assert unwrapped(f"{len(flags):,} accounts: {(flags == '00').sum():,} ordinary") in output
    assert unwrapped(f", {n_frozen:,} frozen,") in output
    (accounts.parent / "rules.toml").write_text(
        '[[rules]]\nclass = "frozen"\ncolumn = "Name"\nmissing = false\n'
    )
    output = unwrapped(pv4fad("party", "check", root / "b")[1])
    n_named = pl.read_csv(accounts, infer_schema=False)["Name"].is_not_null().sum()
    assert unwrapped(f", {n_named:,} frozen,") in output
    for folder in "as":
        assert "frozen" not in pv4fad("party", "check", root / folder)[1]
    assert "frozen" not in (root / "b" / "card.json").read_text()


def test_secrets_are_for_their_owner_only_and_not_in_the_card(parties):
    root, _ = parties
    for file in (*(f"{folder}/{KEY_FILE}" for folder in "asb"), "b/store.db"):
        assert stat.S_IMODE((root / file).stat().st_mode) == 0o600
    card = json.loads((root / "b" / "card.json").read_text())
    assert set(card) == {
        "format", "version", "role", "name", "identity", "certificate", "names", "accounts",
    }  # fmt: skip
    assert card["accounts"] >= 1000


def break_data(root, accounts):
    accounts.write_text(accounts.read_text() + "nonsense\n")


def break_card(root, accounts):
    (root / "b" / "cards" / "payment-network.json").unlink()


def break_key(root, accounts):
    (root / "b" / KEY_FILE).chmod(0o644)


def break_certificate(root, accounts):
    (root / "b" / KEY_FILE).unlink()
    new_certificate(root / "b" / KEY_FILE)


def break_settings(root, accounts):
    path = root / "b" / "party.toml"
    path.write_text(path.read_text().replace("bank01", "bank02", 1))


@pytest.mark.parametrize(
    ("breaks", "expected"),
    [
        (break_data, "bank_dataset.csv"),
        (break_card, "the card of the payment network is missing"),
        (break_key, "can be read by others"),
        (break_certificate, "was not made for the key"),
        (break_settings, "party.toml says bank02"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_problem_is_found_before_a_run(parties, pv4fad, breaks, expected):
    breaks(*parties)
    code, output = pv4fad("party", "check", parties[0] / "b")
    assert code == 1
    assert unwrapped(expected) in unwrapped(output)
    assert output.count("│ wrong │") == 1


def unwrapped(text):
    """Without the borders and line breaks of a narrow table."""
    return re.sub(r"[│\s]", "", text)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--role", "broker"), "give one of payment-network, aggregator, bank"),
        (("--role", "bank"), "--name is missing"),
        (("--role", "bank", "--name", "b"), "--data is missing"),
        (("--role", "bank", "--name", "b", "--data", __file__), "--limit is missing"),
        (("--role", "bank", "--name", "a/b", "--data", __file__, "--limit", "1"), "128 letters"),
        (("--role", "bank", "--name", "aggregator"), "not possible for a party of role bank"),
        (("--role", "aggregator", "--limit", "1"), "--limit: only for a party of role bank"),
        (("--role", "aggregator", "--data", __file__), "the aggregator has no data"),
        (("--role", "aggregator", "--hub", "host:99999"), "write host:port"),
        (("--role", "aggregator", "--hub", "host:²"), "write host:port"),
        (("--role", "aggregator", "--carrier", "pigeon"), "give one of hub, flower"),
        (("--role", "payment-network", "--data", __file__), "test_party_command.py"),
        (("--role", "payment-network", "--data", "."), "the folder has no .xml or .xml.gz file"),
        (("--role", "bank", "--name", "b", "--data", ".", "--limit", "1"), "is a folder"),
        (("--role", "payment-network", "--data", "nowhere.csv"), "nowhere.csv does not exist"),
    ],
)
def test_inconsistent_options_are_refused_and_create_no_folder(
    pv4fad, tmp_path, arguments, expected
):
    code, output = pv4fad("party", "init", tmp_path / "new", *arguments)
    assert code in (1, 2)
    assert expected in output
    assert "Traceback" not in output
    assert not (tmp_path / "new").exists()


def test_files_that_are_nested_too_deep_are_refused(tmp_path):
    file = tmp_path / "party.toml"
    file.write_text("policy = " + "[" * 5000)
    for read in (PartyFolder(tmp_path).settings, lambda: read_options(file)):
        with pytest.raises(ParameterError, match=r"party\.toml"):
            read()


def test_a_folder_in_use_is_left_alone(parties, pv4fad):
    root, _ = parties
    code, output = pv4fad("party", "init", root / "a", "--role", "aggregator")
    assert code == 2
    assert "is not empty" in output


def test_a_card_with_other_keys_does_not_replace_a_known_one(parties, pv4fad, tmp_path):
    root, accounts = parties
    bank = ("--name", "bank01", "--data", accounts, "--limit", "3")
    assert pv4fad("party", "init", tmp_path / "fake", "--role", "bank", *bank)[0] == 0
    code, output = pv4fad("party", "join", root / "s", tmp_path / "fake" / "card.json")
    assert code == 2
    assert "bank01 is known with other keys" in output


def test_a_bank_cannot_start_a_job_and_a_hub_that_does_not_run_is_named(parties, pv4fad):
    root, _ = parties
    code, output = pv4fad("federation", "start", root / "b", "train")
    assert code == 2
    assert "is the folder of a bank" in output
    assert "no job was started yet" in pv4fad("federation", "status", root / "a")[1]
    for folder in "as":
        code, output = pv4fad("federation", "start", root / folder, "train")
        assert (code, "the hub does not run" in output) == (2, True), output
    output = pv4fad("federation", "start", root / "a", "fly")[1]
    assert "give one of check, train, score, match, refresh" in output


def use_flower(folder):
    settings = folder / "party.toml"
    settings.write_text(settings.read_text().replace('carrier = "hub"', 'carrier = "flower"'))


def test_a_relay_of_flower_that_stopped_is_told_from_one_at_work(parties, pv4fad):
    folder = parties[0] / "a"
    use_flower(folder)
    journal = Journal(folder, new_status(None, "train"), ["payment-network"])
    with beating(journal):
        for again in ("start", "resume"):
            job = ["train"] if again == "start" else []
            code, output = pv4fad("federation", again, folder, *job)
            assert (code, "job 1 (train): is running" in output) == (2, True), output
        assert pv4fad("federation", "status", folder)[0] == 0
    an_hour_ago = time.time() - 3600
    os.utime(folder / "status.json", (an_hour_ago, an_hour_ago))
    for words in (("start", folder, "train"), ("status", folder), ("status", folder, "--json")):
        code, output = pv4fad("federation", *words)
        assert code == 2, output
        assert "the relay stopped responding" in output
        assert "pv4fad federation resume" in output


def test_the_status_of_a_hub_that_was_killed_says_that_its_job_goes_on(parties, pv4fad):
    folder = parties[0] / "a"
    Journal(folder, new_status(None, "train"), ["payment-network"])
    code, output = pv4fad("federation", "status", folder)
    assert code == 2
    assert "Job 1 (train) goes on when pv4fad party run runs again" in output


def test_over_flower_jobs_are_started_at_the_aggregator(parties, pv4fad):
    use_flower(parties[0] / "s")
    code, output = pv4fad("federation", "start", parties[0] / "s", "train")
    assert code == 2
    assert "over Flower, jobs are started there" in output
    code, output = pv4fad("party", "online", parties[0] / "s")
    assert (code, "Flower does not tell who is connected" in output) == (2, True)


@contextmanager
def beating(journal):
    """The status is written continually, as the relay does."""
    over = threading.Event()

    def beat():
        while not over.wait(0.1):
            journal.beat()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_an_initialisation_that_fails_leaves_nothing_behind(pv4fad, tmp_path):
    folder = tmp_path / "party"
    new = ("party", "init", folder, "--role", "aggregator", "--hub")
    code, output = pv4fad(*new, "nonsense")
    assert code == 2, output
    assert not folder.exists()
    assert pv4fad(*new, "127.0.0.1:8000")[0] == 0


def test_a_payment_network_can_decide_on_training_later(parties, pv4fad, tmp_path):
    train = transactions_of(parties[0] / "data" / "scenario01", "train")
    new = ("party", "init", tmp_path / "late", "--role", "payment-network", "--data", train)
    assert pv4fad(*new)[0] == 0
    assert PartyFolder(tmp_path / "late").settings().training is None


@pytest.mark.parametrize("name", ["../../../out", "a/b", ""])
def test_a_card_whose_name_is_a_path_is_refused(tmp_path, name):
    identity = Identity.generate(name or "x").public().to_bytes().hex()
    card = PartyCard(
        role="bank",
        name=name,
        identity=identity,
        certificate=any_certificate(),
        names=("B",),
        accounts=1000,
    )
    (tmp_path / "card.json").write_text(card.to_json())
    with pytest.raises(DataError, match=r"card\.json"):
        read_card(tmp_path / "card.json")


def test_a_card_without_a_certificate_is_refused(parties):
    path = parties[0] / "b" / "card.json"
    damaged = json.loads(path.read_text()) | {"certificate": "rubbish"}
    path.write_text(json.dumps(damaged))
    with pytest.raises(DataError, match="no valid certificate"):
        read_card(path)


def test_a_card_with_another_certificate_does_not_replace_a_known_one(parties, pv4fad):
    """Whoever has its key could take the party's connection."""
    root = parties[0]
    card = json.loads((root / "b" / "card.json").read_text())
    card["certificate"] = new_certificate(root / "new.key")
    (root / "other.json").write_text(json.dumps(card))
    code, output = pv4fad("party", "join", root / "s", root / "other.json")
    assert code == 2
    assert "bank01 is known with other keys" in output


def test_a_payment_network_may_have_its_payments_as_a_folder_of_messages(pv4fad, tmp_path):
    scenario = write_data(tmp_path / "data", ["bank01"])
    payments = tmp_path / "payments"
    convert(transactions_of(scenario, "train"), payments, Conversion("pacs008"))
    arguments = ("--role", "payment-network", "--data", payments, "--epsilon", "1.0")
    code, output = pv4fad("party", "init", tmp_path / "s", *arguments)
    assert code == 0, output
