"""A bank joins what it can afford, spends before it releases, and adds the noise it promised."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest
from tests.kit.recording import Event, Recording, changed, party_with, recorded_run
from tests.kit.round_recording import recorded

import pv4fad.protocol.count.bank
import pv4fad.protocol.propose.bank
from pv4fad.errors import (
    BudgetError,
    DataError,
    OrderError,
    ParameterError,
    PolicyError,
    ProtocolError,
)
from pv4fad.hashing.table_size import TableLayout
from pv4fad.parties.party import Party
from pv4fad.privacy.ledger import Expense, Ledger, read_ledger, set_delta_limit, set_limit, spend
from pv4fad.protocol.compare.messages import LabelMasks
from pv4fad.protocol.count.bank import draw_noise
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.match.messages import EncryptedTable
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.score.bank import BankScoring
from pv4fad.protocol.score.messages import ScoreQuery
from pv4fad.protocol.state import Proposal
from pv4fad.protocol.wire import Address, decode
from pv4fad.store.records import Records
from pv4fad.store.store import MemoryStore
from pv4fad.workers import WorkerPool

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def run(request) -> Recording:
    """Of the default model, unless a test says something else."""
    return recorded_run() if getattr(request, "param", "counts") == "sealed" else recorded(1)


sealed = pytest.mark.parametrize("run", ["sealed"], indirect=True)


def ledger_of(party: Party) -> Ledger:
    with party.store.transaction() as tx:
        return read_ledger(tx)


def proposal(run: Recording) -> Event:
    (event,) = run.of(RunProposal, "bank01")
    return event


def release(run: Recording) -> Event:
    """The message to which the bank answers with its noisy sums."""
    return run.of(MaskedProducts, "bank01")[-1]


def with_limit(event: Event, limit: Fraction | str) -> Party:
    party = event.party()
    with party.store.transaction() as tx:
        set_limit(tx, limit, NOW)
    return party


# The ledger.


@pytest.mark.parametrize("limit", [Fraction(0), Fraction(999, 1000)])
def test_a_run_beyond_the_budget_is_refused_when_it_is_proposed(run, monkeypatch, limit):
    """Before any work: not even keys are made."""
    event = proposal(run)
    party = with_limit(event, limit)
    before = party.store.snapshot()
    monkeypatch.setattr(pv4fad.protocol.propose.bank, "new_share_keys", None)
    with pytest.raises(BudgetError, match=r"needs ε = 1, but .* is left .*set-limit"):
        party.handle(event.data)
    assert party.store.snapshot() == before


@pytest.mark.parametrize("run", ["counts", "sealed"], indirect=True)
def test_the_aggregator_gets_the_parameters_without_the_hash_key_of_accounts(run):
    told = {event.receiver.name: event.message.parameters for event in run.of(RunProposal)}
    to_aggregator, to_bank = (
        RunParameters.from_json(told[one]) for one in ("aggregator", "bank01")
    )
    assert to_bank == run.world.parameters
    assert any(to_bank.hash_key)
    assert to_aggregator == to_bank.model_copy(update={"hash_key": bytes(len(to_bank.hash_key))})


def test_a_bank_that_has_set_no_limit_joins_nothing(run):
    event = proposal(run)
    party = party_with(event.receiver, {})
    with pytest.raises(BudgetError, match="has not set a limit"):
        party.handle(event.data)


def test_a_run_without_noise_needs_a_bank_that_allows_it(run):
    event = proposal(run)
    text = event.message.parameters
    quiet = text.replace(b'"epsilon":"1"', b'"epsilon":"none"').replace(
        b'"noise":"distributed"', b'"noise":"none"'
    )
    assert RunParameters.from_json(quiet).epsilon == "none"
    with pytest.raises(BudgetError, match="no noise"):
        with_limit(event, Fraction(1000)).handle(changed(event.message, parameters=quiet))
    assert with_limit(event, "none").handle(changed(event.message, parameters=quiet))


def test_epsilon_is_spent_once_by_a_finished_run_and_not_before_the_release(run):
    for bank in run.world.federation.banks:
        (expense,) = ledger_of(bank).expenses
        assert (expense.run_id, expense.epsilon) == (run.world.parameters.run_id, 1)
        assert expense.sensitivity == run.world.parameters.sensitivity == 2
        assert expense.honest_banks == 2
        assert expense.account_file == f"version 1 of {bank.name}"
    mine = [event for event in run.events if event.receiver.name == "bank01"]
    until_release = mine.index(release(run)) + 1
    assert {ledger_of(event.party()).spent for event in mine[:until_release]} == {0}
    assert {ledger_of(event.party()).spent for event in mine[until_release:]} == {1}
    assert NoisySums in [type(one) for one in release(run).answers()]


def test_a_death_between_commit_and_sending_keeps_it_spent_once(run, monkeypatch):
    """The sums that were stored are sent later, the same bytes; nothing is spent again."""
    event = release(run)
    party = event.party()
    commit = party.store._commit

    def killed():
        commit()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(party.store, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            party.handle(event.data)
    assert ledger_of(party).spent == 1
    stored = party.unanswered()[-2:]
    assert party.handle(event.data) == stored
    assert isinstance(decode(stored[1]), NoisySums)
    assert ledger_of(party).spent == 1


def test_noise_is_drawn_once_for_a_run(run):
    """Two draws of noise for the same sums would tell more than one: also after a restart."""
    event = release(run)
    party = event.party()
    n_sums = run.world.parameters.sizes.n_sums
    party.chosen_noise = np.arange(n_sums)
    first = party.handle(event.data)
    party.chosen_noise = np.ones(n_sums, np.int64)
    restarted = party_with(party, party.store.snapshot())
    assert party.handle(event.data) == restarted.handle(event.data) == first
    assert first[-1] in restarted.unanswered()
    with pytest.raises(OrderError):
        restarted.handle(changed(event.message, index=1))


def test_a_death_before_the_commit_spends_nothing_and_sends_nothing(run, monkeypatch):
    event = release(run)
    party = event.party()

    def killed():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(party.store, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            party.handle(event.data)
    assert party.store.snapshot() == event.before
    assert ledger_of(party).spent == 0


def test_a_release_that_another_run_left_no_budget_for_is_refused(run):
    """Two runs were joined while there was enough for one: the second to finish gets nothing."""
    event = release(run)
    party = event.party()
    with party.store.transaction() as tx:
        spend(tx, Expense("another", Fraction(1, 2), 1, "unit", "per-bank", "file", NOW, 1))
    before = party.store.snapshot()
    with pytest.raises(BudgetError, match=r"0\.5 of this party's limit 1 is left"):
        party.handle(event.data)
    assert party.store.snapshot() == before


# What is left to chance.


def delta_of(party: Party) -> dict[str, Fraction]:
    account = ledger_of(party).delta
    return {kind: account.of_kind(kind, datetime.now(UTC).date()) for kind in ("match", "scoring")}


def with_delta_limit(event: Event, limit: Fraction) -> Party:
    party = event.party()
    with party.store.transaction() as tx:
        set_delta_limit(tx, limit, NOW)
    return party


def queries(run: Recording) -> list[Event]:
    return run.of(ScoreQuery, "bank01")


def test_a_match_is_charged_when_a_bank_joins_and_each_query_when_it_is_answered(run):
    parameters, joined = run.world.parameters, proposal(run)
    match, first = parameters.delta_with("bank01"), queries(run)[0]
    assert delta_of(joined.party()) == {"match": 0, "scoring": 0}
    assert delta_of(first.party()) == {"match": match, "scoring": 0}
    scoring = Fraction(0)
    for event in queries(run):
        party = event.party()
        assert delta_of(party)["scoring"] == scoring
        party.handle(event.data)
        n, bits = len(event.message.ciphertexts), parameters.bounds["linear"].distance_bits
        scoring = delta_of(party)["scoring"]
        before = delta_of(event.party())["scoring"]
        assert float(scoring - before) == pytest.approx(n * 2.0**-bits, rel=1e-6)
        party.handle(event.data)  # again: the answer that is kept
        assert delta_of(party) == {"match": match, "scoring": scoring}
    assert scoring > 0


@pytest.mark.parametrize("asked", [False, True], ids=["match", "query"])
def test_what_exceeds_the_limit_of_delta_is_refused_and_leaves_nothing(run, asked):
    event = queries(run)[0] if asked else proposal(run)
    spent = sum(delta_of(event.party()).values())
    cost = sum(delta_of(after(event)).values()) - spent
    enough = with_delta_limit(event, spent + cost)
    assert enough.handle(event.data)
    party = with_delta_limit(event, spent + cost * Fraction(99, 100))
    before = party.store.snapshot()
    with pytest.raises(BudgetError, match=r"more would take the year to .*set-delta-limit"):
        party.handle(event.data)
    assert party.store.snapshot() == before


def after(event: Event) -> Party:
    party = event.party()
    party.handle(event.data)
    return party


# Noise.


@pytest.mark.parametrize(
    ("noise", "mechanism", "honest"),
    [
        ("per-bank", "discrete_laplace", ()),
        ("distributed", "polya_share", (1,)),
        ("distributed", "polya_share", (2,)),
    ],
)
def test_the_noise_has_the_scale_of_the_run(run, monkeypatch, noise, mechanism, honest):
    """ε, Δ, honest banks and number of sums reach the mechanism, which has its own tests."""
    asked = []
    monkeypatch.setattr(
        pv4fad.protocol.count.bank, mechanism, lambda *a: asked.append(a) or "drawn"
    )
    told = {"noise": noise, "epsilon": "3/4"} | ({"honest_banks": honest[0]} if honest else {})
    parameters = run.world.parameters.model_copy(update=told)
    assert draw_noise(parameters) == "drawn"
    assert asked == [(Fraction(3, 4), parameters.sensitivity, *honest, parameters.sizes.n_sums)]


def test_the_noise_is_drawn_anew_and_is_off_only_if_the_run_says_so(run):
    parameters = run.world.parameters
    assert not np.array_equal(draw_noise(parameters), draw_noise(parameters))
    assert len(draw_noise(parameters)) == parameters.sizes.n_sums
    off = parameters.model_copy(update={"noise": "none", "epsilon": "none"})
    assert not draw_noise(off).any()


# Accounts.


def test_a_bank_with_more_accounts_than_declared_does_not_join(run):
    event = proposal(run)
    party = event.party()
    records = run.world.bank_records(0)
    ids = tuple(f"X{i}".encode() for i in range(1025))
    party.replace_records(replace(records, qualified_ids=ids, bare_ids=ids))
    with pytest.raises(ParameterError, match="declared"):
        party.handle(event.data)
    assert party.store.snapshot() == event.before


@pytest.mark.parametrize("kind", [EncryptedTable, MaskedProducts])
def test_the_account_file_may_not_change_during_a_match(run, kind):
    """Blocks of one table would show two versions, and the ledger would name the wrong one."""
    event = run.of(kind, "bank01")[-1]
    party = event.party()
    party.replace_records(replace(run.world.bank_records(0), fingerprint="version 2"))
    with pytest.raises(DataError, match="the records are not those"):
        party.handle(event.data)
    assert party.store.snapshot() == event.before


# Labels.


@sealed
def test_label_shares_of_a_released_model_are_not_for_banks(run):
    event = run.of(LabelMasks, "bank01")[0]
    party = event.party()
    with party.store.transaction() as tx:
        records = Records(tx, run.world.parameters.run_id)
        released = records.get(Proposal).json.replace(b'"mode":"sealed"', b'"mode":"released"')
        records.put(Proposal(released))
    with pytest.raises(ProtocolError, match="released"):
        party.handle(event.data)


@sealed
def test_label_shares_come_once(run):
    event = run.of(LabelMasks, "bank01")[0]
    party = event.party()
    party.handle(event.data)
    with pytest.raises(OrderError):
        party.handle(changed(event.message, index=1))


def test_a_run_outside_of_its_policy_is_refused_before_anything_is_computed(run, monkeypatch):
    event = proposal(run)
    party, before = event.party(), event.party().store.snapshot()
    strict = party.restarted(party.store, policy=Policy(honest_banks=1))
    with monkeypatch.context() as patch:
        patch.setattr(pv4fad.protocol.propose.bank, "new_share_keys", None)
        with pytest.raises(PolicyError, match=r"bank01 takes no part .* relies on 2"):
            strict.handle(event.data)
    assert party.store.snapshot() == before
    assert party.restarted(party.store, policy=Policy(honest_banks=2)).handle(event.data)


def test_a_bank_that_wants_metered_runs_only_answers_nothing_in_an_earlier_one(run):
    """Its operator sets it after the training: what could be read by questions ends with that."""
    event = run.of(ScoreQuery, "bank01")[0]
    party = event.party()
    assert party.live_keys()
    strict = party.restarted(party.store, policy=Policy(metered=True))
    before = party.store.snapshot()
    with pytest.raises(PolicyError, match=r"bank01 answers nothing in run .* not metered"):
        strict.handle(event.data)
    assert strict.live_keys() == {}
    assert party.store.snapshot() == before
    assert party.handle(event.data)


@pytest.mark.parametrize("kind", [EncryptedTable, MaskedProducts])
def test_nor_does_it_go_on_with_a_training_that_was_under_way(run, kind):
    """Not even the last step, after which it would release its sums."""
    event = run.of(kind, "bank01")[-1]
    party = event.party()
    strict = party.restarted(party.store, policy=Policy(metered=True))
    with pytest.raises(PolicyError, match=r"bank01 answers nothing in run .* not metered"):
        strict.handle(event.data)
    assert party.store.snapshot() == event.before


# The limit on layers.


def test_the_limit_on_layers_holds_over_all_names_of_tables_runs_and_clocks():
    """Only the day and the kind of table count; a clock that was set back starts no new day."""
    store, day = MemoryStore("bank01"), [datetime(2026, 1, 2, tzinfo=UTC)]
    scoring = BankScoring("bank01", WorkerPool(0), 10, lambda: day[0])

    def ask(run_id: str, table_id: str, *, broadcast: bool = False) -> None:
        layout = TableLayout.for_accounts(1000, 1)
        plan = TablePlan(table_id=table_id, banks=("bank01",), broadcast=broadcast, layout=layout)
        query = ScoreQuery(Address("payment-network", "bank01", run_id), 4, (), b"")
        with store.transaction() as tx:
            scoring._count_layers(query, plan, Records(tx, run_id))

    ask("run-1", "bank01")
    ask("run-1", "other@2")
    with pytest.raises(BudgetError, match="at most 10 layers per table and day"):
        ask("run-2", "third@3")
    day[0] = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(BudgetError, match=r"10 layers.*latest day is 2026-01-02.*it is 2026-01-01"):
        ask("run-1", "bank01")
    ask("run-1", "broadcast", broadcast=True)
    day[0] = datetime(2026, 1, 3, tzinfo=UTC)
    ask("run-1", "bank01")
