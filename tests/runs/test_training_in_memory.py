"""A run from data frames, with stores in memory: random trees, released labels."""

import numpy as np
import pytest

from pv4fad.he.pool import WorkerPool
from pv4fad.parties.party import PAYMENT_NETWORK, RunRecords
from pv4fad.parties.store import MemoryStore
from pv4fad.runs.members import assemble, party_names
from pv4fad.runs.meter import PHASES, Meter, messages_of_phases
from pv4fad.runs.new_run import begin_run, prepare_run
from pv4fad.runs.settings import TrainingSettings
from pv4fad.runs.verification import compare

SEED = 987654321987654323  # its trees have red leaves of both labels


@pytest.fixture(scope="module")
def run(tables):
    """A trained run: what was prepared, the stores, what the meter saw."""
    accounts = {bank: tables.accounts[bank] for bank in ("bank01", "bank02")}
    settings = TrainingSettings(
        epsilon="none", structure="random", trees=5, height=3, bound=4, mode="released", seed=SEED
    )
    new = prepare_run(tables.train.transactions, accounts, settings)
    stores = {party: MemoryStore(party) for party in party_names(accounts)}
    reports = []
    with WorkerPool() as pool:
        federation = assemble(stores, new.records, pool, first_limit="none")
        meter = Meter(new.parameters, reports.append)
        begin_run(federation, new, meter)
        meter.stop()
    return new, accounts, stores, meter, reports


@pytest.fixture
def verification(run, tables):
    """Compares again, after a test has changed something; the stores are put back."""
    new, accounts, stores, _, _ = run
    before = {party: dict(store._records) for party, store in stores.items()}

    def again():
        return compare(new.parameters, new.commitment, tables.train.transactions, accounts, stores)

    yield again
    for party, store in stores.items():
        store._records = before[party]


def test_counts_labels_and_trees_equal_those_of_a_trusted_third_party(run, verification):
    result = verification()
    assert result.all_equal
    sizes = {one.what: one.total for one in (*result.exact, *result.noisy)}
    n_leaves = run[0].parameters.sizes.n_leaves
    assert sizes == {
        "trees": 5,
        "commitment": 1,
        "counts": n_leaves,
        "green leaves": run[0].training.forest.n_green,
        "red leaves": n_leaves,
    }


def test_there_is_something_to_compare(run):
    """Both labels occur, in red leaves and in what is counted."""
    new, _, stores, _, _ = run
    with stores[PAYMENT_NETWORK].transaction() as tx:
        labels = RunRecords(tx, new.parameters.run_id).get_arrays("labels")["labels"]
    assert 0 < labels.sum() < len(labels)
    assert new.training.counts.n_path.any()
    assert new.training.forest.n_green > 0


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ((PAYMENT_NETWORK, "sums", "p"), "counts"),
        (("bank02", "sums", "q"), "counts"),
        ((PAYMENT_NETWORK, "labels", "labels"), "red leaves"),
        ((PAYMENT_NETWORK, "green labels", "labels"), "green leaves"),
    ],
)
def test_one_wrong_value_is_noticed(run, verification, where, what):
    new, _, stores, _, _ = run
    party, record, array = where
    with stores[party].transaction() as tx:
        records = RunRecords(tx, new.parameters.run_id)
        values = records.get_arrays(record)[array].copy()
        values.flat[0] = 1 - values.flat[0] if values.max() <= 1 else values.flat[0] ^ 1
        records.put_arrays(record, **{array: values})
    result = verification()
    assert not result.all_equal
    unequal = [one.what for one in (*result.exact, *result.noisy) if not one.all_equal]
    assert unequal == [what]


def test_the_seed_is_with_the_payment_network_only(run):
    stores = run[2]
    seed = str(SEED).encode()
    holders = {
        party
        for party, store in stores.items()
        if any(seed in (store.get(name) or b"") for name in store.keys(""))
    }
    assert holders == {PAYMENT_NETWORK}


def test_every_phase_has_as_many_messages_as_the_parameters_say(run):
    new, _, _, meter, reports = run
    totals = messages_of_phases(new.parameters)
    assert {cost.phase: cost.messages for cost in meter.phases} == totals
    over = [one.cost.phase for one in reports if one.is_over and one.total]
    assert list(dict.fromkeys(over)) == list(PHASES[1:])


def test_bytes_by_kind_add_up_to_bytes_by_phase(run):
    meter = run[3]
    assert sum(one.bytes for one in meter.traffic) == sum(one.bytes for one in meter.phases)
    planes = [one for one in meter.traffic if one.kind == "encrypted-table"]
    assert [(one.sender, one.receiver, one.messages) for one in planes] == [
        (PAYMENT_NETWORK, "bank", 2)
    ]


def test_work_is_timed_where_it_is_done(run):
    seconds = {cost.phase: cost.seconds for cost in run[3].phases}
    # Of all the work the match has most, and every phase has some.
    assert max(seconds, key=seconds.get) == "match"
    assert all(seconds[phase] > 0 for phase in PHASES[1:])
    assert np.isclose(seconds["prepare"], 0)


def test_a_resumed_meter_goes_on_from_what_was_spent(run):
    new, _, _, meter, _ = run
    again = Meter(new.parameters, lambda _: None, phases=meter.phases, traffic=meter.traffic)
    assert again.phases == meter.phases
    assert again.traffic == meter.traffic
