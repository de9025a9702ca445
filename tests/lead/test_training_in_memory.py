"""Runs from data frames, with stores in memory: both models equal the trusted third party."""

from collections import Counter
from dataclasses import dataclass, replace

import pytest
from tests.kit.small_federation import records_of

from pv4fad.lead.data import all_records, bank_directory
from pv4fad.lead.evidence_model import StoredModel
from pv4fad.lead.prepare import NewRun, prepare_run
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import memory_stores, simulate
from pv4fad.lead.train import new_document, train
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.compare.state import BankLabelShare, Labels
from pv4fad.protocol.count.state import BankSums, OwnSums, ReleasedCounts
from pv4fad.protocol.order import messages_of
from pv4fad.protocol.propose.state import StoredTrees
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.run.meter import Meter
from pv4fad.store.records import Records, stored
from pv4fad.store.store import MemoryStore
from pv4fad.verify.training import compare
from pv4fad.workers import WorkerPool

SEED = 987654321987654323
PAPER = {"model": "paper", "trees": 5, "height": 3, "bound": 4}
MODELS = {
    "evidence": TrainingSettings(epsilon="none", seed=SEED),
    "evidence, coarse": TrainingSettings(
        epsilon="none", seed=SEED, sets="coarse", absent="ordinary"
    ),
    "paper, decisions": TrainingSettings(epsilon="none", seed=SEED, **PAPER),
    "paper, votes": TrainingSettings(epsilon="none", seed=SEED, scoring="votes", **PAPER),
}


@dataclass
class Run:
    """A trained run: what was prepared, the stores, what the meter saw."""

    new: NewRun
    accounts: dict
    stores: dict[str, MemoryStore]
    meter: Meter
    reports: list

    def record(self, party: str, kind):
        return stored(self.stores[party], self.new.parameters.run_id, kind)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return request.param


@pytest.fixture(scope="module")
def run(tables, model):
    accounts = records_of(tables.accounts, "bank01", "bank02")
    reports: list = []
    meter = Meter(reports.append)
    sizes = {bank: frame.height for bank, frame in accounts.items()}
    data = LeadData(SCHEMA, tables.train.transactions, bank_directory(accounts))
    new = prepare_run(data, sizes, MODELS[model])
    stores = memory_stores(accounts)
    records = all_records(SCHEMA, accounts)
    with WorkerPool(0) as pool:
        federation = simulate(records, pool, stores=stores, first_limit="none")
        train(federation, new, new_document(new, meter), meter)
    return Run(new, accounts, stores, meter, reports)


@pytest.fixture
def verification(run, tables):
    """Compares the run, or one with another commitment or with other stores."""

    def verify(parameters=run.new.parameters, stores=run.stores):
        return compare(parameters, tables.train.transactions, run.accounts, stores)

    return verify


def test_all_that_was_computed_equals_the_trusted_third_party(run, model, verification):
    result = verification()
    assert result.all_equal
    compared = {one.what: one.total for one in (*result.exact, *result.noisy)}
    sizes = run.new.parameters.sizes
    assert compared.pop("commitment") == 2
    assert compared.pop("counts") == sizes.n_sums
    if model.startswith("evidence"):
        assert compared.pop("released counts") == sizes.n_sums == 18 * len(run.new.training.sets[0])
        assert compared.pop("local model") == 1
        assert compared.pop("own knowledge") > 5
    else:
        assert compared.pop("green leaves") == run.new.training.trees.forest.n_green
        red = [total for what, total in compared.items() if what.startswith("red leaves")]
        assert red == [sizes.n_leaves] * (1 if model == "paper, decisions" else 2)
        compared = {what: 0 for what in compared if not what.startswith("red leaves")}
    assert not compared


def test_there_is_something_to_compare(run, model):
    """Accounts of all kinds count; the labels of red leaves are not all the same."""
    assert run.new.training.counts.n_path.any()
    if model == "evidence":
        counts = run.record(PAYMENT_NETWORK, ReleasedCounts).counts
        present, mild, severe = counts.sum(axis=0)
        assert min(mild, severe) > 0
        assert mild + severe < present < run.new.training.counts.n_path.sum()
    elif model == "evidence, coarse":
        assert run.record(PAYMENT_NETWORK, ReleasedCounts).counts.sum() > 0
    elif model == "paper, decisions":
        labels = run.record(PAYMENT_NETWORK, Labels).labels
        assert 0 < labels.sum() < len(labels)


WRONG = {
    "evidence": {
        (PAYMENT_NETWORK, OwnSums, "p"): "counts",
        ("bank02", BankSums, "q"): "counts",
        (PAYMENT_NETWORK, ReleasedCounts, "counts"): "released counts",
        (PAYMENT_NETWORK, StoredModel, "rows"): "own knowledge",
        (PAYMENT_NETWORK, StoredModel, "hazard"): "own knowledge",
    },
    "evidence, coarse": {(PAYMENT_NETWORK, ReleasedCounts, "counts"): "released counts"},
    "paper, decisions": {
        (PAYMENT_NETWORK, OwnSums, "p"): "counts",
        ("bank02", BankSums, "q"): "counts",
        (PAYMENT_NETWORK, Labels, "labels"): "red leaves",
        (PAYMENT_NETWORK, StoredTrees, "green_labels"): "green leaves",
    },
    "paper, votes": {("bank02", BankLabelShare, "b"): "red leaves, with the share of bank02"},
}


def test_one_wrong_value_is_noticed(run, model, verification):
    """Each of these, and another commitment; a comparison takes a while, so all in one."""
    stores = {party: MemoryStore(party, one.snapshot()) for party, one in run.stores.items()}
    for position, (party, record, array) in enumerate(WRONG[model]):
        with stores[party].transaction() as tx:
            records = Records(tx, run.new.parameters.run_id)
            right = records.get(record)
            wrong = getattr(right, array).copy()
            flat = wrong.reshape(-1)
            flat[position] = 1 - flat[position] if flat.max() <= 1 else flat[position] + 1
            records.put(replace(right, **{array: wrong}))
    other = run.new.parameters.model_copy(update={"commitment": "0" * 64})
    result = verification(other, stores)
    assert not result.all_equal
    unequal = Counter({one.what: one.total - one.equal for one in (*result.exact, *result.noisy)})
    assert +unequal == Counter(["commitment", *WRONG[model].values()])


def test_the_seed_is_with_the_payment_network_only(run):
    seed = str(SEED).encode()
    holders = {
        party
        for party, store in run.stores.items()
        if any(seed in (store.get(name) or b"") for name in store.keys(""))
    }
    assert holders == {PAYMENT_NETWORK}


def test_every_phase_has_as_many_messages_as_the_parameters_say(run, model):
    totals = messages_of(run.new.parameters)
    assert {cost.phase: cost.messages for cost in run.meter.phases} == {"prepare": 0, **totals}
    over = [one.cost.phase for one in run.reports if one.is_over and one.total]
    assert list(dict.fromkeys(over)) == [phase for phase, n in totals.items() if n]
    # The default model has no comparison: the sum over all banks is what is released.
    assert ("compare" in over) == model.startswith("paper")


def test_bytes_by_kind_add_up_to_bytes_by_phase(run):
    meter = run.meter
    assert sum(one.bytes for one in meter.traffic) == sum(one.bytes for one in meter.phases)
    powers = [one for one in meter.traffic if one.kind == "encrypted-table"]
    assert [(one.sender, one.receiver, one.messages) for one in powers] == [
        (PAYMENT_NETWORK, "bank", 2)
    ]


def test_work_is_timed_where_it_is_done(run):
    assert run.meter.phases[0].phase == "prepare"
    assert all(cost.seconds > 0 for cost in run.meter.phases)


def test_a_resumed_meter_goes_on_from_what_was_spent(run):
    meter = run.meter
    again = Meter(phases=meter.phases, traffic=meter.traffic)
    assert again.phases == meter.phases
    assert again.traffic == meter.traffic
