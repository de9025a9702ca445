"""The parts of the incremental state, against plain Python."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.tables.incremental import numbering, timed_sums
from pv4fad.tables.incremental.dealings import Dealings
from pv4fad.tables.incremental.numbering import ByNumber, Numbering
from pv4fad.tables.incremental.timed_sums import FOREVER, NEVER, TimedSums

KEYS, TIMES = 5, 8
_entry = st.tuples(
    st.integers(0, KEYS - 1), st.integers(0, TIMES - 1), st.integers(-(2**40), 2**40)
)
_batches = st.lists(st.lists(_entry, max_size=6), max_size=8)


@pytest.fixture(params=["one run", "few long runs", "merged by a thread"])
def lengths(request, monkeypatch):
    """Of runs."""
    if request.param != "one run":
        monkeypatch.setattr(timed_sums, "_SHORT", 3)
        monkeypatch.setattr(timed_sums, "_RATIO", 2)
    if request.param == "merged by a thread":
        monkeypatch.setattr(timed_sums, "_LONG", 5)


def _columns(entries, n):
    return np.array(entries, np.int64).reshape(-1, n).T


def _all_questions() -> tuple[np.ndarray, np.ndarray]:
    key, time = np.meshgrid(np.arange(KEYS + 1), np.arange(-1, TIMES + 1))
    return key.reshape(-1), time.reshape(-1)


@pytest.mark.usefixtures("lengths")
@settings(max_examples=60, deadline=None)
@given(_batches, st.data())
def test_sums_equal_loops_over_the_entries_that_were_not_taken_back(batches, data):
    sums, there = TimedSums(2), []
    for batch in batches:
        there += batch
        sums.add(*_columns([(*entry[:2], 1, entry[2]) for entry in batch], 4))
        if there and data.draw(st.booleans()):
            key, time, value = there.pop(data.draw(st.integers(0, len(there) - 1)))
            sums.add(*_columns([(key, time, -1, -value)], 4))
    if data.draw(st.booleans()):
        sums = TimedSums.from_arrays(2, sums.to_arrays())
    for key, time, n, total, last, after in zip(
        *_all_questions(),
        *sums.sums(*_all_questions()),
        sums.last(*_all_questions()),
        sums.next_from(*_all_questions()),
        strict=True,
    ):
        mine = [entry for entry in there if entry[0] == key]
        before = [entry for entry in mine if entry[1] < time]
        assert n == len(before)
        assert total == sum(value for *_, value in before)
        assert last == max((at for _, at, _ in before), default=NEVER)
        assert after == min((at for _, at, _ in mine if at >= time), default=FOREVER)


@pytest.mark.usefixtures("lengths")
@settings(max_examples=60, deadline=None)
@given(_batches)
def test_entries_and_counts_equal_loops(batches):
    counted, sums, there = TimedSums(0), TimedSums(1), []
    for batch in batches:
        there += batch
        counted.add(*_columns([entry[:2] for entry in batch], 2))
        sums.add(*_columns(batch, 3))
    number, (values,) = sums.entries(*_all_questions())
    for question, (key, time, n) in enumerate(
        zip(*_all_questions(), counted.count(*_all_questions()), strict=True)
    ):
        before = [value for one, at, value in there if one == key and at < time]
        assert n == len(before)
        assert sorted(values[number == question].tolist()) == sorted(before)


@pytest.mark.parametrize("most_lately", [0, 2, 1000])
def test_equal_values_have_equal_numbers_from_0_on(monkeypatch, most_lately):
    monkeypatch.setattr(numbering, "_MOST_LATELY", most_lately)
    texts, pairs = Numbering(), Numbering()
    number_of: dict[str | None, int] = {}
    rng = np.random.default_rng(0)
    names = np.array(["", "a", "b", "aa", "é", "a\x00", None, *map(str, range(20))], object)
    for size in (1, 3, 30, 2):
        left, right = rng.choice(names, (2, size))
        columns = (pl.Series(part, dtype=pl.String) for part in (left, right))
        numbers = texts.of_texts(*columns)
        for text, number in zip([*left, *right], np.concatenate(numbers).tolist(), strict=True):
            assert number_of.setdefault(text, number) == number
        pairs.of_pairs(*numbers)
        assert sorted(number_of.values()) == list(range(len(texts)))
        texts = Numbering.from_arrays(texts.to_arrays())
    assert pairs.of_pairs(*np.array([[0, 1], [1, 0]])).tolist() != [0, 0]


def test_a_pair_is_not_its_reverse():
    pairs = Numbering()
    left, right = np.array([3, 7, 3, 7]), np.array([7, 3, 7, 7])
    first, reverse, again, same = pairs.of_pairs(left, right).tolist()
    assert first == again
    assert len({first, reverse, same}) == 3


def test_an_array_by_number_grows_with_what_it_is_empty_of():
    array = ByNumber(-1)
    array.reach(3)[[0, 2]] = 5, 7
    assert array.reach(10)[:4].tolist() == [5, -1, 7, -1]


_dealt = st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 3))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(_dealt, min_size=1, max_size=5), min_size=1, max_size=6))
def test_dealings_equal_loops_over_their_rows(batches):
    dealings, rows = Dealings(), []
    for batch in batches:
        rows += batch
        dealings.add(*_columns(batch, 3))
    dealings = Dealings.from_arrays(dealings.to_arrays())
    is_first, is_new = (ask(*_columns(rows, 3)) for ask in (dealings.is_first, dealings.is_new))
    for number, (dealing, event, time) in enumerate(rows):
        began: dict[int, int] = {}
        for one, other, at in rows:
            if one == dealing:
                began[other] = min(at, began.get(other, at))
        assert is_first[number] == (began[event] == min(began.values()))
        earlier = [at for other, at in began.items() if other != event and at < time]
        assert is_new[number] == (not earlier)
