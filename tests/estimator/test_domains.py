"""Every value has a code, whatever it is, and only declarations decide which."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.errors import DataError, ParameterError
from pv4fad.estimator import Categorical, Numeric
from pv4fad.estimator.domains import Ranked, declared_domains, in_declared_order, measured_domain

FINITE = st.floats(-1e300, 1e300)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(ends=st.sets(FINITE, min_size=2, max_size=2), values=st.lists(FINITE, min_size=1))
def test_numbers_outside_the_range_count_as_its_nearer_end(ends, values):
    low, high = sorted(ends)
    domain = Numeric(low, high)
    codes = domain.encode(np.array(values))
    assert np.array_equal(codes, domain.encode(np.clip(values, low, high)))
    assert codes.min() >= 0
    assert codes.max() < domain.n_codes
    order = np.argsort(values)
    assert (np.diff(codes[order]) >= 0).all()
    assert domain.encode(np.array([low, high])).tolist() == [0, domain.n_codes - 1]


@given(declared=st.sets(TEXT, min_size=1), others=st.lists(TEXT))
def test_undeclared_categories_share_one_code(declared, others):
    domain = Categorical(sorted(declared))
    values = np.array([*domain.values, *others, "undeclared"], object)
    codes = domain.encode(values)
    assert codes[: len(declared)].tolist() == list(range(len(declared)))
    assert codes[-1] == domain.n_codes - 1
    for value, code in zip(others, codes[len(declared) :], strict=False):
        assert code == (domain.values.index(value) if value in declared else len(declared))


@given(
    domain=st.sampled_from([Numeric(0, 1), Categorical("abcde"), Ranked((1.0, 2.0, 5.0))]),
    n_branches=st.integers(2, 4),
    seed=st.integers(0, 2**32),
)
def test_a_test_sends_every_code_to_one_branch_and_leaves_no_branch_empty(domain, n_branches, seed):
    branch_of = domain.draw_branches(n_branches, np.random.default_rng(seed))
    assert branch_of.shape == (domain.n_codes,)
    assert set(branch_of) == set(range(n_branches))


def test_tests_on_numbers_keep_their_order():
    branch_of = Numeric(0, 1).draw_branches(8, np.random.default_rng(0))
    assert (np.diff(branch_of) >= 0).all()


def test_measured_domains_are_ranks_of_numbers_and_lists_of_anything_else():
    # One huge value must not take all cells of the range for itself.
    skewed = np.append(np.arange(1000), 1e9)
    codes = measured_domain(skewed).encode(skewed)
    assert np.bincount(codes).max() <= 5
    assert measured_domain(np.array(["b", "a", "b"], object)) == Categorical(["a", "b"])
    assert measured_domain(np.array([3, "a"], object)) == Categorical(["3", "a"])
    assert measured_domain(np.array([7.0, 7.0])).n_groups == 1


def test_domains_are_declared_for_all_features_in_order_or_by_name():
    number, letter = Numeric(0, 1), Categorical("ab")
    assert declared_domains(number, 2) == (number, number)
    assert declared_domains([number, letter], 2) == (number, letter)
    by_name = {"y": letter, "x": number}
    assert declared_domains(by_name, 2) == (letter, number)
    table = pl.DataFrame({"x": [1], "y": ["a"]})
    assert in_declared_order(table, by_name).columns == ["y", "x"]


def test_wrong_declarations_are_refused():
    number = Numeric(0, 1)
    with pytest.raises(ParameterError, match="1 domains are declared for 2 features"):
        declared_domains([number], 2)
    with pytest.raises(ParameterError, match="neither Numeric nor Categorical"):
        declared_domains([number, (0, 1)], 2)
    table = pl.DataFrame({"x": [1], "y": ["a"]})
    with pytest.raises(ParameterError, match="column 'y' is missing in domains"):
        in_declared_order(table, {"x": number})
    with pytest.raises(ParameterError, match="column 'z' is missing in the table"):
        in_declared_order(table, {"x": number, "y": number, "z": number})
    with pytest.raises(ParameterError, match="column names"):
        in_declared_order(table.to_numpy(), {"x": number, "y": number})


@pytest.mark.parametrize("ends", [(1, 1), (2, 1), (0, float("inf")), (float("nan"), 1)])
def test_a_range_needs_two_finite_ends(ends):
    with pytest.raises(ParameterError, match="low < high"):
        Numeric(*ends)


@pytest.mark.parametrize("values", [[], ["a", "a"], [1, "a"]])
def test_categories_are_of_one_type_and_each_is_named_once(values):
    with pytest.raises(ParameterError, match="categorical domain"):
        Categorical(values)


def test_text_where_numbers_were_declared_is_refused_and_the_other_way_round():
    with pytest.raises(DataError, match="not a number"):
        Numeric(0, 1).encode(np.array(["a"], object))
    for missing in (None, "nan", float("nan")):
        with pytest.raises(DataError, match="is missing"):
            Numeric(0, 1).encode(np.array([0.5, missing], object))
    with pytest.raises(DataError, match="domain is text"):
        Categorical("ab").encode(pl.Series([1, 2]).to_numpy())
