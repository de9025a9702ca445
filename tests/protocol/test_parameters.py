"""Run parameters fit together or are refused by name; everything else follows from them."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.kit.world import make_world

from pv4fad.errors import ParameterError
from pv4fad.hashing.keyed import tree_of
from pv4fad.hashing.table_size import TableLayout
from pv4fad.he.circuits import linear_bound
from pv4fad.he.ring import PLAIN_MODULI, Ring
from pv4fad.protocol.parameters import RunParameters, TablePlan, most_in_a_bin


@cache
def base() -> RunParameters:
    return make_world(seed=1, n_banks=2, mode="mixed").parameters


def parameters(**changes) -> RunParameters:
    fields = {name: getattr(base(), name) for name in RunParameters.model_fields}
    return RunParameters(**fields | changes)


def table(n_declared: int, table_id: str = "broadcast", banks=("bank01", "bank02")) -> TablePlan:
    layout = TableLayout.for_accounts(n_declared, base().sizes.n_trees)
    return TablePlan(table_id=table_id, banks=banks, broadcast=len(banks) > 1, layout=layout)


NOISY = {"epsilon": "1", "noise": "distributed"}


@settings(max_examples=50)
@given(
    bound=st.integers(1, 300),
    n_declared=st.integers(1000, 50_000),
    noise=st.sampled_from(["none", "per-bank", "distributed"]),
)
def test_t_is_the_smallest_modulus_that_holds_every_noisy_sum(bound, n_declared, noise):
    changes = {"bound": bound, "tables": (table(n_declared),), "noise": noise}
    if noise != "none":
        changes["epsilon"] = "0.5"
    try:
        run = parameters(**changes)
    except ParameterError:
        assume(False)
    holding = [t for t in PLAIN_MODULI if run.largest_sum <= (t - 1) // 2 - 1]
    assert run.plain_modulus == holding[0]
    assert run.largest_sum >= bound * n_declared / run.sizes.n_trees


def test_no_tree_has_more_accounts_than_planned_for():
    """20 times 5000 accounts: the plan holds except with probability 2^-40 each time."""
    run = parameters(tables=(table(5000),))
    for repeat in range(20):
        trees = tree_of([f"{repeat}-{i}".encode() for i in range(5000)], run.sizes.n_trees)
        assert np.bincount(trees).max() <= run.accounts_of_one_tree
    assert run.accounts_of_one_tree < 2 * 5000 / run.sizes.n_trees


def test_noise_makes_the_modulus_larger_where_it_has_to():
    quiet = parameters(bound=30)
    noisy = parameters(bound=30, epsilon="0.01", noise="per-bank")
    assert quiet.plain_modulus < noisy.plain_modulus
    assert noisy.largest_sum - quiet.largest_sum == noisy.noise_tail > 0


def test_delta_of_a_bank_is_what_is_left_to_chance_in_its_tables():
    """Every ciphertext that goes back between it and the payment network, and false matches."""
    ones = table(5000, "bank01", ("bank01",)), table(1000, "bank02", ("bank02",))
    run = parameters(tables=(*ones, table(3000)), banks={"bank01": 4096, "bank02": 1024})
    for bank, own, declared in (("bank01", ones[0], 4096), ("bank02", ones[1], 1024)):
        plans = own, table(3000)
        n_blocks = sum(plan.layout.n_blocks for plan in plans)
        lanes, atoms = sum(len(run.lanes(plan)) for plan in plans), run.sizes.n_atoms
        counts = {"values": 2 * n_blocks, "distances": n_blocks, "indicators": atoms * n_blocks}
        counts |= {"linear": lanes * run.sizes.sums_per_tree, "compare": run.n_leaf_blocks}
        distance = sum(n * 2.0 ** -run.bounds[name].distance_bits for name, n in counts.items())
        alone = parameters(tables=plans[:1], banks={bank: declared})
        broadcast = parameters(tables=(table(3000, bank, (bank,)),), banks={bank: declared})
        false = 2.0**alone.log2_false_match + 2.0**broadcast.log2_false_match
        assert float(run.delta_with(bank)) == pytest.approx(distance + false, rel=1e-6)
    assert run.delta == run.delta_with("bank01") > run.delta_with("bank02")
    total = 2.0**run.log2_distance + 2.0**run.log2_false_match
    assert float(run.delta_with("bank01") + run.delta_with("bank02")) >= total


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"bound": 10**6}, "lower the bound"),
        ({"bound": 0}, "bound"),
        ({"bound": 10**7}, "bound"),
        ({"banks": {"bank01": 10**8, "bank02": 10**8}}, "banks: two different records"),
        ({"banks": {"bank01": 1024, "bank02": 0}}, "banks"),
        ({"banks": {"bank01": 1024, "bank02": 10**10}}, "banks"),
        ({"banks": {}}, "banks"),
        ({"banks": {"bank01": 1024}}, "takes no part"),
        ({"banks": dict.fromkeys(("bank01", "bank02", "bank03"), 1024), "tables": ()}, "tables"),
        ({"honest_banks": 3}, "3 honest parties"),
        ({"honest_banks": 0}, "honest_banks"),
        ({"epsilon": "1"}, "epsilon"),
        ({"noise": "per-bank"}, "epsilon"),
        ({"epsilon": "0", "noise": "per-bank"}, "epsilon"),
        ({"epsilon": "-1", "noise": "per-bank"}, "ε"),
        ({"epsilon": "1e3", "noise": "per-bank"}, "ε"),
        ({"epsilon": "1/100000000", "noise": "per-bank"}, "epsilon"),
        ({"noise": "some"}, "noise"),
        ({"mode": "open"}, "mode"),
        ({"hash_key": b"short"}, "hash_key"),
        ({"run_id": "a/b"}, "run_id"),
        ({"run_id": ""}, "run_id"),
        ({"blocks_per_message": 0}, "blocks_per_message"),
        ({"tables": (table(1000), table(1000))}, "table_id"),
        ({"tables": (table(1000, "bank01", ("bank01",)),)}, "bank02 gets none"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, named):
    with pytest.raises(ParameterError, match=named):
        parameters(**changes)


@pytest.mark.parametrize("name", ["payment-network", "aggregator", "broadcast"])
def test_a_bank_cannot_take_the_name_of_another_party_or_of_the_broadcast_table(name):
    banks = {"bank01": 1024, name: 1024}
    with pytest.raises(ParameterError, match=name):
        parameters(banks=banks, tables=(table(1000, "all", ("bank01", name)),))


def test_a_routed_table_goes_to_one_bank():
    plan = TablePlan(
        table_id="x", banks=("bank01", "bank02"), broadcast=False, layout=table(1000).layout
    )
    with pytest.raises(ParameterError, match="routed"):
        parameters(tables=(plan,))


def test_layouts_must_fit_the_forest_and_the_ciphertexts():
    n_trees = base().sizes.n_trees
    for layout, named in (
        (TableLayout.for_accounts(1000, n_trees + 1), "n_trees"),
        (TableLayout.for_accounts(1000, n_trees, block_size=32768), "no strip"),
        (TableLayout.for_accounts(1000, n_trees, block_size=8000), "no strip"),
        (TableLayout.for_accounts(100, n_trees, block_size=16384 // 20), "no strip"),
        (TableLayout.for_accounts(30_000, n_trees, block_size=8192), "several blocks has full"),
    ):
        plan = TablePlan(table_id="x", banks=("bank01", "bank02"), broadcast=True, layout=layout)
        with pytest.raises(ParameterError, match=named):
            parameters(tables=(plan,))


def test_the_claims_that_are_shown_hold():
    run = parameters(**NOISY)
    assert run.log2_distance <= -30
    assert run.log2_false_match <= -20
    assert run.sensitivity == run.bound


def test_json_goes_round():
    run = parameters(**NOISY)
    assert RunParameters.from_json(run.model_dump_json()) == run
    assert RunParameters.from_json(run.model_dump_json().encode()) == run


def paths(value, prefix=()):
    """Every place in a JSON document."""
    yield prefix
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*prefix, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from paths(value[index], (*prefix, index))


def replaced(document, path, value):
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return copy


strange = st.sampled_from(
    [None, True, -1, 0, 1, 2, 7, 10**6, 10**12, 10**30, 0.5, 1e300, "", "x", "none", "1", [], {}]
)


@settings(max_examples=300)
@given(st.data())
def test_tampered_json_is_refused_or_is_another_valid_run(data):
    """Whatever another party sends: never any other error, never a run that does not fit."""
    document = json.loads(parameters(**NOISY).model_dump_json())
    path = data.draw(st.sampled_from(list(paths(document))))
    text = json.dumps(replaced(document, path, data.draw(strange)))
    try:
        run = RunParameters.from_json(text)
    except ParameterError:
        return
    assert run.log2_distance <= -30
    assert run.largest_sum < run.plain_modulus // 2
    assert all(run.tables_of(bank) for bank in run.banks)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"run_id": 1}', b"\xff\xfe"])
def test_what_is_no_json_of_parameters_is_refused(text):
    with pytest.raises(ParameterError):
        RunParameters.from_json(text)


@pytest.mark.parametrize(
    ("n_accounts", "n_bins"), [(1000, 16384), (20_000, 16384), (100_000, 49_152)]
)
def test_no_bin_of_a_bank_holds_more_than_planned_for(n_accounts, n_bins):
    """30 tables of random accounts; the plan holds except with probability 2^-40 each time."""
    rng = np.random.default_rng(n_accounts)
    most = 0
    for _ in range(30):
        bins = np.concatenate([rng.integers(n_bins, size=n_accounts) for _ in range(3)])
        most = max(most, np.bincount(bins).max())
    planned = most_in_a_bin(n_accounts, n_bins)
    assert most <= planned
    assert planned <= 3 * most + 15


def test_one_account_is_alone_in_each_of_its_bins():
    assert most_in_a_bin(1, 16384) == most_in_a_bin(0, 16384) == 1


@settings(max_examples=25)
@given(st.integers(1000, 300_000), st.integers(1, 16), st.integers(1, 4))
def test_messages_carry_every_block_and_every_lane_once(n_declared, n_trees, per_message):
    layout = TableLayout.for_accounts(n_declared, n_trees)
    plan = TablePlan(
        table_id="broadcast", banks=("bank01", "bank02"), broadcast=True, layout=layout
    )
    sizes = type(base().sizes)(n_trees, 8, 1, 3, base().sizes.n_atoms)
    run = parameters(tables=(plan,), sizes=sizes, bound=1, blocks_per_message=per_message)
    for bank in run.banks:
        blocks = [b for p, chunk in run.match_steps(bank) for b in run.blocks_of_chunk(p, chunk)]
        assert blocks == list(range(layout.n_blocks))
        lanes = [one for p, chunk in run.count_steps(bank) for one in run.lanes_of_chunk(p, chunk)]
        assert sorted(tree for one in lanes for tree in one.trees) == list(range(n_trees))


def test_the_bound_on_counting_knows_how_many_trees_share_a_lane():
    """They may count the same set, in one ciphertext whose errors are the same for all of them."""
    plan = table(1000).model_copy(update={"layout": TableLayout.for_accounts(1000, 16)})
    run = parameters(tables=(plan,), sizes=type(base().sizes)(16, 8, 1, 3, base().sizes.n_atoms))
    share, lanes = Ring.of(run.share_ring), run.lanes(plan)
    n_trees, n_blocks = max(len(one.trees) for one in lanes), max(len(one.blocks) for one in lanes)
    assert n_trees > 1
    bound, n_terms = run.bounds["linear"], n_trees * n_blocks * run.sizes.n_atoms
    for alike, same in ((n_trees, True), (1, False)):
        expected = linear_bound(share, n_terms, bound.flood.n_primes, alike)
        assert (bound.noise_bits == expected.noise_bits) == same


def test_an_unknown_table_is_named():
    with pytest.raises(ParameterError, match="there is no table 'x'"):
        base().table("x")
