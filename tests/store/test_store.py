"""What every store promises: all or nothing, stored replies, permanent records."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pv4fad.errors import OrderError, StoreError
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase

PASSPHRASE = Passphrase("correct horse battery")
REQUEST, OTHER = b"\x01" * 32, b"\x02" * 32
ID = "run-1/table-1/0/planes/0/payment-network/bank-a"


def put(store, **records):
    with store.transaction() as tx:
        for key, value in records.items():
            tx.put(key, value)


def contents(store):
    return {key: store.get(key) for key in store.keys("")}


def test_records_are_read_as_they_were_written(store):
    put(store, state=b"one", empty=b"")
    put(store, state=b"two")
    assert contents(store) == {"state": b"two", "empty": b""}
    assert store.get("absent") is None
    assert store.party == "bank-a"


def test_names_are_listed_by_prefix_and_sorted(store):
    put(store, **{"b/2": b"", "b/10": b"", "b": b"", "a/1": b"", "~": b"", "b~": b""})
    assert store.keys("b/") == ["b/10", "b/2"]
    assert store.keys("b") == ["b", "b/10", "b/2", "b~"]
    assert store.keys() == sorted(store.keys())
    assert len(store.keys()) == 6


def test_a_transaction_happens_not_at_all_if_its_block_raises(store):
    put(store, kept=b"old", gone=b"x")

    def fail():
        with store.transaction() as tx:
            tx.put("kept", b"new")
            tx.put("fresh", b"new")
            tx.delete("gone")
            tx.record_reply(ID, REQUEST, [b"reply"])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert contents(store) == {"kept": b"old", "gone": b"x"}
    assert store.reply_to(ID, REQUEST) is None
    put(store, kept=b"newer")
    assert store.get("kept") == b"newer"


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_an_interrupt_around_the_commit_leaves_a_store_that_works(store, monkeypatch, moment):
    put(store, a=b"old")
    commit = store._commit

    def interrupted():
        if moment == "after the commit":
            commit()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            put(store, a=b"new", b=b"new")
    done = {"a": b"new", "b": b"new"} if moment == "after the commit" else {"a": b"old"}
    assert contents(store) == done
    put(store, c=b"more")
    assert contents(store) == done | {"c": b"more"}
    if isinstance(store, DiskStore):
        store.close()
        with DiskStore.open(store.folder, PASSPHRASE) as again:
            assert contents(again) == done | {"c": b"more"}


def test_reads_inside_a_transaction_see_its_writes(store):
    put(store, a=b"old", b=b"old")
    with store.transaction() as tx:
        tx.put("a", b"new")
        tx.delete("b")
        tx.delete("never-there")
        assert tx.get("a") == store.get("a") == b"new"
        assert tx.keys() == store.keys() == ["a"]
    assert contents(store) == {"a": b"new"}


def test_transactions_do_not_nest_and_end_with_their_block(store):
    with store.transaction() as tx:
        with pytest.raises(StoreError, match="already open"), store.transaction():
            pass
        tx.put("a", b"1")
    assert store.get("a") == b"1"
    for action in (
        lambda: tx.put("a", b"2"),
        lambda: tx.delete("a"),
        lambda: tx.get("a"),
        lambda: tx.record_reply(ID, REQUEST, []),
    ):
        with pytest.raises(StoreError, match="has ended"):
            action()


def test_a_repeated_message_gets_the_stored_reply(store):
    replies = [b"first", b"", b"third" * 1000]
    assert store.reply_to(ID, REQUEST) is None
    with store.transaction() as tx:
        tx.record_reply(ID, REQUEST, replies)
        tx.record_reply(ID + "x", REQUEST, [])
    assert store.reply_to(ID, REQUEST) == replies
    assert store.reply_to(ID + "x", REQUEST) == []
    assert store.reply_to(ID + "y", REQUEST) is None


def test_the_same_message_with_other_content_is_refused(store):
    with store.transaction() as tx:
        tx.record_reply(ID, REQUEST, [b"reply"])
    with pytest.raises(OrderError, match="other content"):
        store.reply_to(ID, OTHER)
    for digest in (REQUEST, OTHER):
        with pytest.raises(OrderError, match="already has a reply"), store.transaction() as tx:
            tx.record_reply(ID, digest, [b"another"])
    assert store.reply_to(ID, REQUEST) == [b"reply"]


def test_acknowledged_replies_are_dropped_but_the_message_is_not_taken_for_new(store):
    with store.transaction() as tx:
        tx.record_reply(ID, REQUEST, [b"a" * 1000, b"b" * 1000])
    with store.transaction() as tx:
        tx.acknowledge(ID)
    with store.transaction() as tx:
        tx.acknowledge(ID)  # an acknowledgement may be repeated too
    assert sum(len(value) for value in contents(store).values()) < 200
    assert store.unacknowledged() == []
    assert store.reply_to(ID, REQUEST) == []
    with pytest.raises(OrderError, match="other content"):
        store.reply_to(ID, OTHER)
    with pytest.raises(OrderError, match="no reply"), store.transaction() as tx:
        tx.acknowledge(ID + "x")


def test_what_may_not_have_arrived_can_be_sent_again_in_its_order(store):
    assert store.unacknowledged() == []
    for name in ("z", "b", "c", "a"):
        with store.transaction() as tx:
            tx.record_reply(name, REQUEST, [f"{name}{i}".encode() for i in range(2)])
    with store.transaction() as tx:
        tx.acknowledge("b")
        tx.prune("c")
    with store.transaction() as tx:
        tx.record_reply("d", REQUEST, [b"d0"])
    assert store.unacknowledged() == [b"z0", b"z1", b"a0", b"a1", b"d0"]


def test_pruning_forgets_the_messages_of_one_run_only(store):
    with store.transaction() as tx:
        for run in ("run-1", "run-10", "run-2"):
            tx.record_reply(f"{run}/t/0", REQUEST, [b"reply"])
        tx.put("run-1/state", b"kept")
    with store.transaction() as tx:
        tx.prune("run-1/")
    assert store.reply_to("run-1/t/0", REQUEST) is None
    assert store.reply_to("run-10/t/0", REQUEST) == store.reply_to("run-2/t/0", REQUEST)
    assert store.get("run-1/state") == b"kept"


def test_permanent_records_are_neither_changed_nor_deleted(store):
    put(store, **{"permanent/1": b"spent", "permanent/10": b"x"})
    for action in (
        lambda tx: tx.put("permanent/1", b"other"),
        lambda tx: tx.put("permanent/1", b"spent"),
        lambda tx: tx.delete("permanent/1"),
    ):
        with pytest.raises(StoreError, match="permanent"), store.transaction() as tx:
            action(tx)
    with store.transaction() as tx:
        tx.prune("")
    assert store.get("permanent/1") == b"spent"


@pytest.mark.parametrize("name", ["", "a\tb", "ä", "x" * 1025, "a\n", "reply/x"])
def test_unfit_names_are_refused(store, name):
    with pytest.raises(StoreError, match="names"), store.transaction() as tx:
        tx.put(name, b"")
    assert store.keys() == []


def test_a_message_id_cannot_pose_as_a_part_of_a_reply(store):
    with pytest.raises(StoreError, match=r"\|"), store.transaction() as tx:
        tx.record_reply(ID + "|0", REQUEST, [])


names = st.sampled_from(["a", "b", "b/1", "c"])
changes = st.lists(st.tuples(names, st.none() | st.binary(max_size=5)), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(changes, st.booleans()), max_size=6))
def test_a_store_is_a_dictionary_with_transactions(store, transactions):
    with store.transaction() as tx:
        for key in tx.keys(""):
            tx.delete(key)
    expected = {}
    for steps, fails in transactions:
        model = dict(expected)
        try:
            with store.transaction() as tx:
                for key, value in steps:
                    if value is None:
                        tx.delete(key)
                        model.pop(key, None)
                    else:
                        tx.put(key, value)
                        model[key] = value
                if fails:
                    raise ZeroDivisionError
            expected = model
        except ZeroDivisionError:
            pass
        assert contents(store) == expected
