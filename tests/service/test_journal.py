"""The journal: complete, in order, once per payment, sealed; whatever happens to the process."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from tests.kit.small_federation import small_tables

from pv4fad.errors import OrderError, StoreError
from pv4fad.service.intake import digest, texts_of
from pv4fad.service.journal import FOLDER, Entry, Journal, journal_key
from pv4fad.store.store import MemoryStore

KEY = bytes(range(32))
NAMES = ("MessageId", "Account")


def entry(number: int, *, alert: bool = False) -> Entry:
    text = json.dumps([f"PAYMENT-{number}", f"ACCOUNT-{number % 7}"])
    answer = json.dumps({"id": f"PAYMENT-{number}", "n": number})
    return Entry(f"PAYMENT-{number}", f"digest-{number}", answer, NAMES, text, alert)


def entries(*numbers: int) -> list[Entry]:
    return [entry(number, alert=number % 3 == 0) for number in numbers]


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def test_decisions_are_read_back_in_order_after_it_was_closed(folder):
    with Journal.open(folder, KEY) as journal:
        assert journal.write(entries(0, 1, 2)) == [0]
        assert journal.write(entries(3, 4)) == [1]
        assert journal.write([]) == []
    with Journal.open(folder, KEY) as journal:
        assert list(journal.decisions()) == entries(0, 1, 2, 3, 4)
        assert journal.n_decisions == 5
        assert [answer for _, answer, _ in journal.alerts()] == [
            one.answer for one in entries(0, 3)
        ]
        assert journal.latest(1) == entries(3, 4)
        assert journal.alert(1) == (entry(3).answer, entry(3).payment)
        assert journal.alert(2) is None


def test_a_payment_is_found_by_its_id_and_others_are_not(folder):
    with Journal.open(folder, KEY) as journal:
        for start in range(0, 1000, 100):
            journal.write(entries(*range(start, start + 100)))
        wanted = [f"PAYMENT-{number}" for number in (5, 995, 1001, 123)]
        assert journal.find(wanted) == {
            f"PAYMENT-{number}": entries(number)[0] for number in (5, 995, 123)
        }
        assert journal.find([f"PAYMENT-{number}" for number in range(1000)]).keys() == {
            f"PAYMENT-{number}" for number in range(1000)
        }


def test_a_second_decision_about_a_payment_is_refused_and_nothing_of_its_batch_is_kept(folder):
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(1))
        with pytest.raises(OrderError, match="decided before"):
            journal.write(entries(2, 1))
        assert list(journal.decisions()) == entries(1)
        assert journal.write(entries(2)) == []


def test_actions_are_kept_in_order(folder):
    with Journal.open(folder, KEY) as journal:
        for note in ("first", "second"):
            journal.act({"what": "verdict", "note": note})
    with Journal.open(folder, KEY) as journal:
        assert [action["note"] for action in journal.actions()] == ["first", "second"]


def test_questions_are_kept_until_they_are_replaced(folder):
    with Journal.open(folder, KEY) as journal:
        for number in range(4):
            journal.ask({"n": number})
    with Journal.open(folder, KEY) as journal:
        assert [one["n"] for one in journal.questions()] == [0, 1, 2, 3]
        journal.replace_questions(3, [{"n": 2}])
        journal.ask({"n": 9})
    with Journal.open(folder, KEY) as journal:
        assert [one["n"] for one in journal.questions()] == [3, 2, 9]
        journal.replace_questions(3, [])
        assert not list(journal.questions())
        journal.write(entries(0))
    with Journal.open(folder, KEY) as journal:
        assert not list(journal.questions())
        assert list(journal.decisions()) == entries(0)


def test_a_question_that_was_replaced_cannot_be_put_back(folder):
    with Journal.open(folder, KEY) as journal:
        journal.ask({"n": 0})
    connection = sqlite3.connect(folder / FOLDER / "journal.db")
    ((old,),) = connection.execute("SELECT sealed FROM questions").fetchall()
    connection.close()
    with Journal.open(folder, KEY) as journal:
        journal.replace_questions(1, [])
        journal.ask({"n": 1})
    connection = sqlite3.connect(folder / FOLDER / "journal.db")
    connection.execute("UPDATE questions SET sealed = ?", (old,))
    connection.commit()
    connection.close()
    with Journal.open(folder, KEY) as journal, pytest.raises(StoreError, match="damaged"):
        list(journal.questions())


@pytest.mark.parametrize("writable", [True, False])
def test_who_no_longer_waits_for_a_note_keeps_no_other_from_being_told(folder, writable):
    with Journal.open(folder, KEY) as journal:
        with journal._turn:  # nothing is written meanwhile
            notes = [journal.ask({"n": number}) for number in range(3)]
            assert notes[0].cancel()
            if not writable:
                journal._connection.execute("PRAGMA query_only = ON")
        if writable:
            assert notes[1].result(10) is notes[2].result(10) is None
            assert [one["n"] for one in journal.questions()] == [0, 1, 2]
        else:
            assert all(isinstance(one.exception(10), StoreError) for one in notes[1:])


def test_nothing_of_a_payment_can_be_read_from_the_files(folder):
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(*range(30)))
        journal.act({"note": "SECRET-NOTE"})
        files = list((folder / FOLDER).iterdir())
        assert any(path.name.endswith("-wal") for path in files)
        raw = b"".join(path.read_bytes() for path in files)
    raw += b"".join(path.read_bytes() for path in (folder / FOLDER).iterdir())
    assert len(raw) > 10_000
    for word in (b"PAYMENT", b"ACCOUNT", b"digest", b"SECRET", b"MessageId"):
        assert word not in raw
    assert (folder / FOLDER).stat().st_mode & 0o077 == 0
    assert (folder / FOLDER / "journal.db").stat().st_mode & 0o077 == 0


def test_another_key_opens_nothing(folder):
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(1))
    with pytest.raises(StoreError):
        Journal.open(folder, bytes(32))


def test_the_key_is_made_once_and_is_in_the_store():
    store = MemoryStore("payment-network")
    assert journal_key(store) == journal_key(store)
    assert len(journal_key(store)) == 32
    assert journal_key(store) != journal_key(MemoryStore("payment-network"))


@pytest.mark.parametrize(
    "tampering",
    [
        "DELETE FROM blocks WHERE number = 1",
        "DELETE FROM ids WHERE block = 1",
        "DELETE FROM alerts",
        "DELETE FROM actions",
        "DELETE FROM head",
    ],
)
def test_a_row_that_was_removed_is_noticed(folder, tampering):
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(0, 1))
        journal.write(entries(2, 3))
        journal.act({"what": "verdict"})
    change(folder, tampering)
    with pytest.raises(StoreError, match="damaged"):
        Journal.open(folder, KEY)


def test_rows_that_were_exchanged_are_noticed(folder):
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(0, 1))
        journal.write(entries(2, 3))
    change(
        folder,
        "UPDATE blocks SET number = 9 WHERE number = 0",
        "UPDATE blocks SET number = 0 WHERE number = 1",
        "UPDATE blocks SET number = 1 WHERE number = 9",
    )
    with Journal.open(folder, KEY) as journal, pytest.raises(StoreError, match="damaged"):
        list(journal.decisions())


def test_a_row_of_an_earlier_journal_or_another_table_is_noticed(folder):
    """They are sealed with the same key."""
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(0, 1))
        journal.act({"what": "verdict"})
    file = folder / FOLDER / "journal.db"
    file.rename(folder / "earlier.db")
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(2, 3))
        journal.act({"what": "delivered"})
    earlier = f"ATTACH '{folder / 'earlier.db'}' AS earlier"
    change(
        folder,
        earlier,
        "UPDATE actions SET sealed = (SELECT sealed FROM alerts WHERE number = 0)",
        "UPDATE blocks SET sealed = (SELECT sealed FROM earlier.blocks WHERE number = 0)",
    )
    with Journal.open(folder, KEY) as journal:
        for read in (journal.actions, journal.decisions):
            with pytest.raises(StoreError, match="damaged"):
                list(read())


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE ids SET block = 0, position = 1 WHERE block = 1",
        "UPDATE ids SET position = 9 WHERE block = 1",
        "UPDATE ids SET block = 9 WHERE block = 1",
    ],
)
def test_an_id_that_leads_to_another_payment_is_noticed(folder, tampering):
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(0, 1))
        journal.write(entries(2))
    change(folder, tampering)
    with Journal.open(folder, KEY) as journal, pytest.raises(StoreError, match="damaged"):
        journal.find(["PAYMENT-2"])


def change(folder, *statements: str) -> None:
    connection = sqlite3.connect(folder / FOLDER / "journal.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_two_processes_cannot_have_it(folder):
    program = f"""
        from pathlib import Path
        from pv4fad.service.journal import Journal
        Journal.open(Path({str(folder)!r}), bytes(range(32)))
    """
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(1))
        found = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "in use by another process" in found.stderr


def test_another_process_can_look_at_it_and_changes_nothing(folder):
    with pytest.raises(StoreError, match="the service has not run yet"):
        Journal.look(folder, KEY)
    with Journal.open(folder, KEY) as journal:
        journal.write(entries(0, 1))
        with Journal.look(folder, KEY) as seen, Journal.look(folder, KEY) as other:
            journal.write(entries(2))  # goes on
            journal.act({"what": "later"})
            assert list(seen.decisions()) == entries(0, 1)
            assert list(seen.actions()) == []
            assert len(list(seen.alerts())) == sum(one.alert for one in entries(0, 1))
            with pytest.raises(StoreError):
                other.act({"what": "change"})
        with Journal.look(folder, KEY) as seen:
            assert list(seen.actions()) == [{"what": "later"}]
        journal.write(entries(3))
    with Journal.look(folder, KEY) as seen, Journal.open(folder, KEY) as journal:
        assert list(seen.decisions()) == list(journal.decisions()) == entries(0, 1, 2, 3)
    with pytest.raises(StoreError):
        Journal.look(folder, bytes(32))


def test_a_decision_with_its_payment_takes_less_than_400_bytes_on_disk(folder):
    payments = small_tables().test.transactions.drop("Label", strict=False)
    answer = (
        '{"id":"TE8ESHO5OM","alert":false,"level":0,"score":0.0401,"reasons":[],'
        '"decided":"local only","time":"2026-11-18T00:48:18.267+00:00"}'
    )
    kept = [
        Entry(one, digest(text), answer, tuple(payments.columns), text)
        for one, text in zip(payments["MessageId"], texts_of(payments), strict=True)
    ]
    with Journal.open(folder, KEY) as journal:
        for start in range(0, len(kept), 50):
            journal.write(kept[start : start + 50])
        assert journal.n_decisions == len(kept) > 100
    empty = 6 * 4096  # a page for each table
    size = (folder / FOLDER / "journal.db").stat().st_size
    assert size - empty < 400 * len(kept)


WRITER = """
    import sys
    from pathlib import Path
    from tests.service.test_journal import KEY, entries
    from pv4fad.service.journal import Journal

    with Journal.open(Path(sys.argv[1]), KEY) as journal:
        start = journal.n_decisions
        for first in range(start, start + 100_000, 5):
            journal.write(entries(*range(first, first + 5)))
            print(first + 5, flush=True)      # answered
"""


def test_killed_at_any_moment_all_that_was_answered_is_there_once_and_in_order(folder):
    """Each time the process is killed in the middle of its writing, after some answers."""
    answered = 0
    for round_ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
        ) as writer:
            for _ in range(20 + 13 * round_):
                line = writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read()
        lines = re.findall(r"\d+", line + rest)
        # The last line may have been cut off.
        complete = lines if rest.endswith("\n") or not rest else lines[:-1]
        answered = int(complete[-1])
        with Journal.open(folder, KEY) as journal:
            kept = list(journal.decisions())
            assert len(kept) >= answered
            assert len(kept) % 5 == 0  # a commit is there or it is not
            assert kept == entries(*range(len(kept)))
            assert len(list(journal.alerts())) == sum(one.alert for one in kept)
    assert answered > 200
