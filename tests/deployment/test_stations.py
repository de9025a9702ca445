"""Stations and relay without a carrier's programs: the same result, whatever gets lost."""

from __future__ import annotations

import gc
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from weakref import WeakSet

import polars as pl
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from tests.kit.in_threads import PAPER, ThreadFederation, transactions_of, write_data
from tests.kit.message_count import count_messages
from tests.kit.small_federation import small_tables
from tests.kit.waiting import comes_true

from pv4fad.cli.progress import VOTES_TELL, learned_lines
from pv4fad.deployment.correspondence import Correspondence, framed
from pv4fad.deployment.envelope import Envelopes, Fragment, _label
from pv4fad.deployment.exchange import Request
from pv4fad.deployment.job_notes import abandon
from pv4fad.deployment.jobs import NetworkMember
from pv4fad.deployment.party_folder import read_identity
from pv4fad.errors import OrderError, ProtocolError, StoreError
from pv4fad.lead.data import load_rows
from pv4fad.lead.scoring_job import UNKNOWN, JobNotes
from pv4fad.lead.settings import TrainingSettings
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.privacy.ledger import read_ledger, set_limit
from pv4fad.protocol.receipt import Receipt
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.wire import MAGIC, Address, Message, encode, read_header
from pv4fad.run.folder import RunFolder
from pv4fad.store.sealing import Sealer
from pv4fad.verify.predictions import ScoredData
from pv4fad.verify.training import compare

BANKS = ["bank01", "bank02"]


def verified(federation: ThreadFederation, number: int, trained_with=None):
    """The model, and the n-th scoring, against a trusted third party.

    `trained_with`: the account files at that time, if they were others.
    """
    (run,) = (federation.root / "runs").iterdir()
    document = RunFolder(run).require_finished()
    accounts = {bank: federation.records(bank) for bank in federation.banks}
    predictions = federation.root / "predictions" / f"{run.name}-{number}.csv"
    return compare(
        document.parameters,
        load_rows(SCHEMA, transactions_of(federation.scenario, "train"), labels_required=True),
        trained_with or accounts,
        federation.stores,
        scored=ScoredData.read(
            SCHEMA, federation.scenario / "test", accounts, predictions, run.name
        ),
    )


@dataclass
class Seals:
    """What went into envelopes, and what the relay saw of them."""

    messages: dict[str, tuple[str, str, str, int]] = field(default_factory=dict)
    seen: list[Fragment] = field(default_factory=list)
    of_aggregator: dict[str, Envelopes] = field(default_factory=dict)
    """With the keys that the aggregator had, by session."""
    envelopes: WeakSet[Envelopes] = field(default_factory=WeakSet)
    """Of all parties and sessions, as long as a party has them."""

    def see(self, fragment: Fragment) -> None:
        self.seen.append(fragment)


def record_seals(patch: pytest.MonkeyPatch, seals: Seals | None = None) -> Seals:
    seals, seal, take = seals or Seals(), Envelopes.seal, Envelopes.take

    def recorded(self, receiver, message):
        fragments = seal(self, receiver, message)
        entry = (read_header(message).kind, self._own.name, receiver, len(message))
        seals.messages[fragments[0].envelope] = entry
        return fragments

    def taken(self, offers):
        take(self, offers)
        seals.envelopes.add(self)
        if self._own.name == AGGREGATOR:
            seals.of_aggregator[self._session] = self

    patch.setattr(Envelopes, "seal", recorded)
    patch.setattr(Envelopes, "take", taken)
    return seals


class Trouble:
    """Breaks a connection now and then, and restarts parties when these kinds are sent to them."""

    def __init__(self, sealed: Seals, restarts: dict[str, str]) -> None:
        self.sealed = sealed
        self.restarts = restarts
        self.n_said = 0

    def __call__(self, federation, party, said):
        for fragment in said.fragments if isinstance(said, Request) else ():
            kind, *_ = self.sealed.messages[fragment.envelope]
            if self.restarts.get(kind) == party:
                federation.start(self.restarts.pop(kind))
        self.n_said += bool(said.fragments)
        return not said.fragments or self.n_said % 23 != 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """With losses; a bank was restarted when its table was on the way, the payment network when
    the first shares of the join were.  To be copied before anything else is done with it."""
    root = tmp_path_factory.mktemp("trained")
    federation = ThreadFederation(root, write_data(root / "data", BANKS), BANKS)
    with pytest.MonkeyPatch.context() as patch:
        sealed = record_seals(patch)
        restarts = {"encrypted-table": "bank01", "blinded-indicators": PAYMENT_NETWORK}
        trouble = Trouble(sealed, restarts)
        status = federation.run("train", trouble, sealed.see)
    assert not trouble.restarts
    federation.close()
    return federation, status, sealed


@pytest.fixture(scope="module")
def troubled(trained, tmp_path_factory):
    """Trained and scored, with losses and restarts."""
    before, status, sealed = trained
    federation = before.copied_to(tmp_path_factory.mktemp("troubled"))
    with pytest.MonkeyPatch.context() as patch:
        trouble = Trouble(record_seals(patch, sealed), {"score-query": "bank02"})
        scored = federation.run("score", trouble, sealed.see)
    assert not trouble.restarts
    yield federation, status, scored, sealed
    federation.close()


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """The paper's model, trained and scored by votes."""
    root = tmp_path_factory.mktemp("paper")
    data = write_data(root / "data", BANKS[:1], small_tables())
    federation = ThreadFederation(root, data, BANKS[:1], PAPER)
    with pytest.MonkeyPatch.context() as patch:
        sealed, count = record_seals(patch), count_messages(patch)
        federation.run("train")
        federation.run("score")
    yield federation, sealed, count
    federation.close()


def test_votes_of_the_papers_model_equal_those_of_a_trusted_third_party(paper):
    federation, *_ = paper
    result = verified(federation, 1)
    assert result.all_equal
    assert {found.what for found in result.exact} >= {"counts", "scores", "OrderingVotes"}
    (record,) = federation.learned
    assert record.learned is None
    assert learned_lines(record, SCHEMA.words) == [SCHEMA.words(VOTES_TELL)]


def test_a_message_is_decoded_once_on_its_way_through_stations_and_relay(paper):
    _, sealed, count = paper
    assert count.handled == len(sealed.messages) > 20
    assert count.made == 2 * count.handled  # by its sender, and when its receiver decodes it


def test_counts_bits_and_alerts_equal_those_of_a_trusted_third_party(troubled):
    result = verified(troubled[0], 1)
    assert result.all_equal
    assert {found.what for found in result.exact} >= {"counts", "bits", "alerts", "scores"}
    assert all(found.total > 0 for found in result.exact)


def test_every_bank_has_spent_once(troubled):
    for bank in BANKS:
        assert len(read_ledger(troubled[0].stores[bank]).expenses) == 1


def test_the_status_tells_of_losses_and_restarts(troubled):
    _, trained, scored, _ = troubled
    assert trained.state == scored.state == "finished"
    assert trained.sessions >= 2
    # One that falls between two sessions is not noticed, and need not be.
    assert sum(hops.restarts for hops in trained.parties.values()) >= 1
    assert sum(hops.failures for hops in trained.parties.values()) >= 2
    ways = {(sent.sender, sent.receiver) for sent in trained.sent}
    assert ("bank01", AGGREGATOR) in ways
    assert ("bank01", "bank02") not in ways


ROLES = {PAYMENT_NETWORK: "S", AGGREGATOR: "A"}


def test_the_relay_sees_sizes_and_opens_only_what_is_for_the_aggregator(troubled):
    seals = troubled[3]
    sessions = [own for own in seals.of_aggregator.values() if own.knows(PAYMENT_NETWORK)]
    assert len(sessions) >= 2
    between_others = [part for part in seals.seen if AGGREGATOR not in (part.sender, part.receiver)]
    assert len(between_others) > 20
    n_tried = 0
    for fragment in between_others:
        for aggregator in (own for own in sessions if own.knows(fragment.sender)):
            n_tried += 1
            with pytest.raises(ProtocolError, match="was not sealed by it for aggregator"):
                aggregator.open(replace(fragment, receiver=AGGREGATOR))
        # A sealed message is as long as the message, plus nonce and tag; nothing of it shows.
        *_, size = seals.messages[fragment.envelope]
        if fragment.n_parts == 1:
            assert len(fragment.body) == size + 28
        assert MAGIC not in fragment.body[:64]
    assert n_tried > 20


def test_recorded_envelopes_stay_closed_to_who_steals_the_keys_of_all_stores(troubled):
    """What two parties can work out from their long-term keys alone opens none of them."""
    federation, seals = troubled[0], troubled[3]
    keys = {
        name: Correspondence(read_identity(store), federation.cards)
        for name, store in federation.stores.items()
    }
    assert len(seals.seen) > 40
    for fragment in seals.seen:
        one, other = fragment.sender, fragment.receiver
        shared = keys[one].exchange(keys[one].public_key(other))
        names = (fragment.federation.encode(), one.encode(), other.encode())
        label = _label(fragment.envelope, fragment.part, fragment.n_parts)
        for version in (1, 2):
            info = framed(b"pv4fad envelope, version %d" % version, *names)
            key = HKDF(SHA256(), 32, salt=None, info=info).derive(shared)
            with pytest.raises(StoreError):
                Sealer(key).open(fragment.body, label)


def test_the_keys_of_a_session_are_gone_when_its_job_is_over(trained, tmp_path):
    federation = trained[0].copied_to(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        seals = record_seals(patch)
        federation.run("check")
        assert {own._session for own in seals.envelopes} > {""}
        seals.of_aggregator.clear()

        def left() -> bool:
            gc.collect()
            return {own._session for own in seals.envelopes} <= {""}

        assert comes_true(left, 60)
    federation.close()


def test_the_table_of_what_the_relay_sees_is_right(troubled, paper):
    page = Path(__file__).parents[2] / "docs" / "operate" / "deployment.md"
    lines = page.read_text().split("## What the relay sees")[1].split("##")[0].splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if " → " in line
    ]
    listed = {(kind.strip("`"), way): sees for kind, way, sees in rows}
    assert len(listed) == len(rows)
    for (_, way), sees in listed.items():
        assert (sees == "sizes") == ("A" not in way)
    sent = {
        (kind, f"{ROLES.get(sender, 'B')} → {ROLES.get(receiver, 'B')}")
        for seals in (troubled[3], paper[1])
        for kind, sender, receiver, _ in seals.messages.values()
    }
    assert len(sent) >= 22
    assert sent <= set(listed)
    # The others are those of released labels, of accounts whose bank is unknown, of metered runs,
    # notices, and live messages.
    left = {("label-masks", "A → S"), ("score-reply", "B → A"), ("score-reply", "A → S")}
    left |= {("metered-reply", "B → A"), ("own-part", "S → A"), ("metering-stopped", "A → S")}
    left |= {("notify", "S → B"), ("live-query", "S → B")}
    left |= {("live-reply", "B → S"), ("live-refusal", "B → S")}
    assert set(listed) - sent <= left
    kinds = {
        cls.kind
        for cls in Message.__subclasses__()
        if cls.__module__.startswith("pv4fad.protocol.")
    }
    assert {kind for kind, _ in listed} == kinds


def test_predictions_hold_alerts_and_the_payment_network_sees_what_was_learnt(troubled):
    federation = troubled[0]
    (file,) = (federation.root / "predictions").glob("*.csv")
    table = pl.read_csv(file)
    assert table.columns == ["MessageId", "Score", "Alert", "Level", "LocalScore", "Reasons"]
    (record,) = federation.learned
    assert record.learned is not None
    assert 0 < record.learned.holder_alerts <= record.learned.alerts == table["Alert"].sum()
    assert record.learned.records_asked == record.records_known
    # The relay reads how far a job is, and nothing of what was found.
    for status in troubled[1:3]:
        assert re.fullmatch(r"\w+: \d+ messages, [\d,.]+ MB", status.progress)


def test_nothing_is_left_to_resume(troubled):
    with pytest.raises(ProtocolError, match=r"payment-network: cannot continue \(StoreError\)"):
        troubled[0].run("resume")


def test_a_bank_that_cannot_go_on_stops_the_run_and_keeps_its_reasons(tmp_path, caplog):
    federation = ThreadFederation(tmp_path, write_data(tmp_path / "data", BANKS[:1]), BANKS[:1])
    file = federation.account_file("bank01")
    file.write_text(file.read_text() + "not an account\n")
    with pytest.raises(ProtocolError) as refused:
        federation.run("train")
    assert str(refused.value) == "bank01: cannot continue (DataError); its own log says why"
    assert "bank_dataset.csv" in caplog.text
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["state"] == "failed"
    federation.close()


def test_a_training_that_cannot_go_on_is_abandoned(tmp_path):
    """Its messages are neither sent nor answered again."""
    federation = ThreadFederation(tmp_path, write_data(tmp_path / "data", BANKS[:1]), BANKS[:1])
    with federation.stores["bank01"].transaction() as tx:
        set_limit(tx, parse_epsilon("1"), datetime(2026, 1, 2, 12, tzinfo=UTC))
    with pytest.raises(ProtocolError, match=r"bank01: cannot continue \(BudgetError\)"):
        federation.run("train")
    with pytest.raises(ProtocolError, match=r"payment-network: cannot continue \(StoreError\)"):
        federation.run("train")
    network = federation.stores[PAYMENT_NETWORK]
    assert network.unacknowledged()
    run_id = abandon(network)
    assert not network.unacknowledged()
    receipt = Receipt(Address(AGGREGATOR, PAYMENT_NETWORK, run_id), of="anything")
    assert federation.members[PAYMENT_NETWORK].handle(encode(receipt)) == []
    with pytest.raises(StoreError, match="no job was interrupted"):
        abandon(network)
    federation.close()


def test_a_bank_refuses_a_run_outside_of_its_policy_and_says_why_in_its_own_log_only(
    tmp_path, caplog
):
    settings = TrainingSettings(epsilon="1", honest_banks=2)
    data = write_data(tmp_path / "data", BANKS)
    federation = ThreadFederation(tmp_path, data, BANKS, settings)
    with pytest.raises(ProtocolError) as refused:
        federation.run("train")
    assert re.search(r"bank0\d: cannot continue \(PolicyError\)", str(refused.value))
    assert "honest" not in str(refused.value)
    assert "policy on honest-banks (at most 1 of 2, itself included)" in caplog.text
    for bank in BANKS:
        assert not read_ledger(federation.stores[bank]).expenses
    federation.close()


def test_what_was_answered_before_a_scoring_was_abandoned_is_not_asked_again(trained, tmp_path):
    """Abandoned in the middle of a round, when three tables of four have been answered."""
    federation = trained[0].copied_to(tmp_path)
    (run,) = (federation.root / "runs").iterdir()
    network = federation.stores[PAYMENT_NETWORK]
    notes, rounds, replies = JobNotes(network, run.name), [], []
    handle, score = NetworkMember.handle, PaymentNetwork.score

    def handle_three_replies(self, data):
        if read_header(data).kind == "score-reply":
            replies.append(data)
            if len(replies) == 4:
                raise OrderError("on purpose")
        return handle(self, data)

    def noted(self, run_id, data):
        rounds.append(data)
        return score(self, run_id, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PaymentNetwork, "score", noted)
        with patch.context() as inner:
            inner.setattr(NetworkMember, "handle", handle_three_replies)
            with pytest.raises(ProtocolError, match="on purpose"):
                federation.run("score")
        federation.stations[PAYMENT_NETWORK].close()
        known = notes.n_known()
        abandon(network)
        assert notes.n_known() == known
        federation.start(PAYMENT_NETWORK)
        assert federation.run("score").state == "finished"
    interrupted, first, *_ = rounds
    answered = [key for key in interrupted.keys if key not in set(first.keys)]
    assert 0 < known[0] == len(answered) < len(interrupted.keys)
    assert set(first.keys) < set(interrupted.keys)
    assert (notes.known_bits(interrupted.keys, len(rounds) - 1)[:, 0] != UNKNOWN).all()
    assert verified(federation, 2).all_equal
    federation.close()


def test_changed_records_stop_a_scoring_until_all_accounts_are_matched_again(tmp_path):
    federation = ThreadFederation(tmp_path, write_data(tmp_path / "data", BANKS[:1]), BANKS[:1])
    federation.run("train")
    file = federation.account_file("bank01")
    before = {"bank01": federation.records("bank01")}
    file.write_text(file.read_text().replace(",00\n", ",07\n"))
    refused = partial(pytest.raises, ProtocolError, match="bank01: cannot continue")
    for job in ("score", "resume"):
        with refused():
            federation.run(job)
    federation.stations[PAYMENT_NETWORK].close()  # as the lock of a store on disk asks for
    abandon(federation.stores[PAYMENT_NETWORK])
    federation.start(PAYMENT_NETWORK)
    with refused():
        federation.run("score")
    # Interrupted when the new join is about to be in force; then the records change once more.
    with pytest.MonkeyPatch.context() as patch:
        sealed = record_seals(patch)

        def stop(_federation, _party, said):
            # What was left of the scoring was sealed before anybody looked.
            known = (sealed.messages.get(part.envelope) for part in said.fragments)
            if "tables-in-force" in {one[0] for one in known if one is not None}:
                raise KeyboardInterrupt
            return True

        with pytest.raises(KeyboardInterrupt):
            federation.run("refresh", stop)
    file.write_text(file.read_text().replace(",07\n", ",04\n"))
    with suppress(ProtocolError):  # refused, unless the bank had nothing more to do for the match
        federation.run()  # the hub goes on by itself
    assert federation.run("refresh").state == "finished"
    assert federation.run("score").state == "finished"
    assert verified(federation, 3, before).all_equal
    assert len(read_ledger(federation.stores["bank01"]).expenses) == 1
    federation.close()
