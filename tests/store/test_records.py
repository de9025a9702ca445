"""What a party keeps is a typed record: it comes back as it was, or not at all."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pv4fad.errors import StoreError
from pv4fad.store.records import Record, Records, from_bytes, stored, to_bytes
from pv4fad.store.store import MemoryStore


@dataclass(frozen=True)
class Inner:
    name: str
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Kept(Record):
    values: NDArray[np.uint64] = field(repr=False)
    flags: NDArray[np.bool_]
    raw: bytes
    parts: tuple[bytes, ...]
    answered: dict[str, int]
    inner: Inner
    nothing: int | None = None


@dataclass(frozen=True)
class Limit(Record):
    of_all_runs: ClassVar[bool] = True
    layers: int


def kept(values=(1, 2), raw=b"x"):
    array = np.array(values, np.uint64)
    return Kept(array, array > 1, raw, (b"", b"ab"), {"bank01": 3}, Inner("ε", (1, 2)))


@pytest.fixture
def store():
    return MemoryStore("bank01")


@given(st.lists(st.integers(0, 2**64 - 1)), st.binary(max_size=50), st.lists(st.binary(max_size=9)))
def test_a_record_comes_back_as_it_was(values, raw, parts):
    array = np.array(values, np.uint64).reshape(1, -1)
    before = Kept(array, array > 3, raw, tuple(parts), {"b": 1}, Inner("n", ()), 5)
    after = from_bytes(Kept, to_bytes(before))
    assert after.values.shape == array.shape
    assert (after.values == array).all()
    assert (after.flags == before.flags).all()
    assert (after.raw, after.parts, after.answered) == (raw, tuple(parts), {"b": 1})
    assert (after.inner, after.nothing) == (before.inner, 5)


@given(st.data())
def test_changed_bytes_never_give_another_kind_of_error(data):
    raw = bytearray(to_bytes(kept()))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = from_bytes(Kept, bytes(raw))
    except StoreError:
        return
    assert found.values.dtype == np.uint64


@pytest.mark.parametrize("n_bytes", [0, 5, 8, 40, -1])
def test_a_truncated_record_is_refused(n_bytes):
    raw = to_bytes(kept())
    with pytest.raises(StoreError, match="Kept is damaged"):
        from_bytes(Kept, raw[:n_bytes])
    with pytest.raises(StoreError, match="damaged"):
        from_bytes(Kept, raw + b"x")


def test_an_array_of_another_type_is_refused():
    with pytest.raises(StoreError, match="int64 where a record has uint64"):
        to_bytes(Kept(np.zeros(1, np.int64), np.zeros(1, bool), b"", (), {}, Inner("", ())))


def test_a_record_has_a_place_in_its_run_and_epoch(store):
    with store.transaction() as tx:
        training = Records(tx, "run1")
        training.put(kept(raw=b"training"))
        training.of_epoch(2).put(kept(raw=b"match"))
        training.of_epoch(2).put(kept(raw=b"block"), "bank01", 7)
        Records(tx, "run2").put(kept(raw=b"other"))
    with store.transaction() as tx:
        training = Records(tx, "run1")
        assert training.get(Kept).raw == b"training"
        assert training.of_epoch(2).get(Kept).raw == b"match"
        assert training.of_epoch(2).get(Kept, "bank01", 7).raw == b"block"
        assert list(training.of_epoch(2).places(Kept, "bank01")) == [("7",)]
        assert training.find(Kept, "bank01", 7) is None
        assert training.epochs() == {2}
        assert training.has(Kept)
        assert not training.has(Kept, "bank01")
        with pytest.raises(StoreError, match="run/run1/run/Kept/bank02 is missing"):
            training.get(Kept, "bank02")


def test_deleting_an_epoch_leaves_the_others(store):
    with store.transaction() as tx:
        training = Records(tx, "run1")
        training.put(kept())
        training.put(Limit(3))
        training.of_epoch(2).put(kept(), 1)
        training.of_epoch(12).put(kept(), 1)
        training.of_epoch(2).delete_all()
        assert training.epochs() == {12}
        training.of_epoch(12).delete(Kept)
        assert training.epochs() == set()
        training.delete_all()
        assert not training.has(Kept)
        assert Records(tx, "run2").get(Limit).layers == 3


@dataclass(frozen=True)
class Waiting:
    """A stage with a field."""

    received: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """A stage without one."""


@dataclass(frozen=True)
class Over:
    """Another: only its name tells it from the one before."""


@dataclass(frozen=True)
class Stage(Record):
    now: Waiting | Done | Over


@pytest.mark.parametrize("stage", [Waiting(("bank01", "bank02")), Done(), Over()])
def test_one_of_several_classes_comes_back_as_it_was(store, stage):
    with store.transaction() as tx:
        Records(tx, "run1").put(Stage(stage))
    assert stored(store, "run1", Stage).now == stage


def test_a_class_that_is_not_one_of_them_is_damage():
    data = to_bytes(Stage(Done()))
    with pytest.raises(StoreError, match="damaged"):
        from_bytes(Stage, data.replace(b"Done", b"Gone"))


def test_a_place_cannot_reach_into_another(store):
    with store.transaction() as tx, pytest.raises(StoreError, match="cannot be part"):
        Records(tx, "run1").put(kept(), "bank01/7")


def test_a_record_that_another_version_would_have_written_says_what_to_do():
    """A store of an earlier version opens, but the models in it are not brought along."""
    store = MemoryStore("bank01")
    with store.transaction() as tx:
        tx.put("run/run1/run/Kept", to_bytes(Limit(3)))
        tx.put("party/Limit", to_bytes(kept()))
    again = "another version of pv4fad has trained this run, train again"
    with store.transaction() as tx:
        records = Records(tx, "run1")
        for place in ((), ("answers",)):
            with pytest.raises(StoreError, match=again):
                records.get(Kept, *place)
        with pytest.raises(StoreError, match=r"of another version$"):
            records.get(Limit)
