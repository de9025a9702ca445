"""What live payments look like is what the batch code says, whatever happens to the service."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from itertools import cycle, islice

import numpy as np
import polars as pl
import pytest
from tests.kit.both_ways import assert_says
from tests.kit.known_writer import BATCH, entries_of, known_of
from tests.kit.live_service import KEY, known_payments, live_service, live_world
from tests.kit.waiting import comes_true

from pv4fad.errors import DataError, StoreError
from pv4fad.lead.rows import fingerprint, new_rows
from pv4fad.payments.features.incremental_graph import PaymentGraph
from pv4fad.payments.schema import SCHEMA
from pv4fad.service import known_payments as module
from pv4fad.service import snapshot_file
from pv4fad.service.intake import Intake, texts_of
from pv4fad.service.journal import FOLDER, Journal
from pv4fad.service.snapshot_file import FILE_NAME, read_snapshot
from pv4fad.store.sealing import Sealer

TEXTS = pl.col(pl.Categorical).cast(pl.String)


@pytest.fixture(scope="module")
def day():
    """Payments in order of time, with those of several legs among them."""
    rows = live_world().tables.test.transactions.drop("Label", strict=False)
    return rows.sort("Timestamp").with_columns(TEXTS)


@pytest.fixture
def often(monkeypatch):
    """A snapshot after every 40 payments."""
    monkeypatch.setattr(module, "SNAPSHOT_AFTER", 40)
    monkeypatch.setattr(module, "_SHARE", 10**9)


def batch_code(rows):
    """What it says about rows that have come in this order."""
    training = live_world().history
    return new_rows(SCHEMA, rows, training.with_columns(TEXTS))


@contextmanager
def opened(folder):
    with Journal.open(folder, KEY) as journal, closing(known_payments(folder, journal)) as known:
        yield journal, known


def take(known, rows):
    return known.take(rows, texts_of(rows))


def decide(journal, known, rows):
    """Take payments, and write their decisions."""
    found = take(known, rows)
    journal.write(entries_of(found, texts_of(rows)))
    known.decided(rows["MessageId"].to_list())
    return found


def test_texts_of_payments_are_read_back_as_they_were(day):
    intake = Intake(SCHEMA)
    assert intake.rows_of(intake.names, texts_of(day)).equals(day)
    with pytest.raises(DataError, match="of another schema"):
        intake.rows_of(intake.names[1:], [])


# A day, through the service.


class Recording:
    """The engine, and what it was given."""

    def __init__(self) -> None:
        self.features: dict[str, bytes] = {}
        self.fails = False

    async def decide(self, payments):
        if self.fails:
            raise RuntimeError
        values = payments.features.values
        found = zip(payments.ids.to_list(), values, strict=True)
        self.features |= {one: row.tobytes() for one, row in found}
        await asyncio.sleep(0.01)  # the next batch is taken meanwhile
        yield live_world().engine.judge(payments)


@pytest.mark.usefixtures("often")
def test_a_day_through_the_service_has_the_features_of_one_batch(tmp_path, payments, day):
    engine, sizes, left = Recording(), cycle([1, 2, 50, 7, 1, 90]), list(payments)
    expected = batch_code(day).features.values
    while left:
        # Restarted every now and then; some payments cannot be decided, and are sent again.
        with live_service(tmp_path, engine=engine) as service:
            for n in islice(sizes, 5):
                batch, left = left[:n], left[n:]
                for engine.fails in (True, False) if n == 7 else (False,):
                    answers = service.post("/payments/batch", batch or payments[:1]).json()
                    assert {one.get("status") for one in answers} == {503 if engine.fails else None}
    assert [engine.features[one] for one in day["MessageId"]] == [row.tobytes() for row in expected]


def test_payments_that_fail_and_do_not_come_again_are_not_known(tmp_path, day):
    first, failing, later = day[:30], day[30:50], day[50:90]
    with opened(tmp_path) as (journal, known):
        decide(journal, known, first)
        under_way = take(known, day[90:95])
        take(known, failing)
        known.undecided(failing["MessageId"].to_list())
        known.decided([])
        found = take(known, later)
    assert_says(found, batch_code(pl.concat([first, day[90:95], later])))
    assert_says(under_way, batch_code(pl.concat([first, day[90:95]])))


def test_payments_half_of_which_were_counted_are_not_known(tmp_path, day, monkeypatch):
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:30])
        with monkeypatch.context() as broken:
            broken.setattr(PaymentGraph, "features", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                take(known, day[30:50])
        assert_says(take(known, day[50:60]), batch_code(pl.concat([day[:30], day[50:60]])))


def test_payments_that_are_refused_change_nothing_and_cost_nothing(tmp_path, day, monkeypatch):
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:30])
        monkeypatch.setattr(known, "_put_together", lambda: 1 / 0)
        with pytest.raises(DataError):
            take(known, day[30:40].with_columns(UETR=pl.lit(None, pl.String)))
        assert_says(take(known, day[30:40]), batch_code(day[:40]))


# Snapshots.


def snapshot(folder, journal, known):
    """The one that is stored, once none is being stored."""
    assert comes_true(lambda: not known._is_storing)
    return read_snapshot(folder / FOLDER / FILE_NAME, known._sealer)


@pytest.mark.usefixtures("often")
def test_a_snapshot_waits_for_the_payments_that_are_under_way(tmp_path, day):
    with opened(tmp_path) as (journal, known):
        n_training = snapshot(tmp_path, journal, known).snapshot.n_rows
        assert n_training == live_world().history.height
        one, other = take(known, day[:30]), take(known, day[30:60])
        for found, n_rows in ((other, 0), (one, 60)):
            texts = texts_of(found.rows)
            journal.write(entries_of(found, texts))
            assert snapshot(tmp_path, journal, known).snapshot.n_rows == n_training
            known.decided(found.ids.to_list())
            assert snapshot(tmp_path, journal, known).snapshot.n_rows == n_training + n_rows
        kept = snapshot(tmp_path, journal, known)
        assert (kept.n_blocks, len(kept.also)) == (0, 60)
    with opened(tmp_path) as (journal, known):
        assert len(known) == n_training + 60
        assert_says(take(known, day[60:70]), batch_code(day[:70]))


@pytest.mark.usefixtures("often")
def test_a_snapshot_with_payments_that_are_not_decided_is_not_stored(tmp_path, day):
    with opened(tmp_path) as (journal, known):
        n_training = len(known)
        take(known, day[:60])
        known.undecided(day["MessageId"][:1].to_list())
        known.decided(day["MessageId"][1:60].to_list())
        assert snapshot(tmp_path, journal, known).snapshot.n_rows == n_training


def test_nothing_is_read_again_that_the_snapshot_has(tmp_path, day, monkeypatch):
    monkeypatch.setattr(module, "SNAPSHOT_AFTER", 10)
    monkeypatch.setattr(module, "_SHARE", 10**9)
    with opened(tmp_path) as (journal, known):
        for batch in day[:100].iter_slices(10):
            decide(journal, known, batch)
            assert comes_true(lambda: not known._is_storing)
    with Journal.open(tmp_path, KEY) as journal:
        monkeypatch.setattr(journal, "blocks", lambda since: iter([]) if since == 9 else 1 / 0)
        known = module.KnownPayments(
            SCHEMA,
            journal,
            tmp_path,
            KEY,
            training=lambda: 1 / 0,
            fingerprint=fingerprint(live_world().history),
        )
        with closing(known):
            assert_says(take(known, day[100:120]), batch_code(day[:120]))


def test_payments_of_the_journal_that_a_later_training_had_count_once(tmp_path, day):
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:50])
    label = pl.lit(0, pl.Int8).alias("Label")
    more = pl.concat([live_world().history.with_columns(TEXTS), day[:30].with_columns(label)])
    with Journal.open(tmp_path, KEY) as journal:
        known = module.KnownPayments(
            SCHEMA, journal, tmp_path, KEY, training=lambda: more, fingerprint="another"
        )
        with closing(known):
            assert len(known) == live_world().history.height + 50
            found = take(known, day[50:70])
    assert_says(found, new_rows(SCHEMA, day[30:70], more))


@pytest.mark.parametrize("at", [0, 3, 16, 18, 40, 0.3, 0.9, -1])
def test_a_snapshot_that_is_damaged_costs_time_and_nothing_else(tmp_path, day, at, caplog):
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:50])
    path = tmp_path / FOLDER / FILE_NAME
    raw = bytearray(path.read_bytes())
    place = int(at * len(raw)) if isinstance(at, float) else at
    raw[place] ^= 1
    sealer = known._sealer
    for damaged in (bytes(raw), bytes(raw)[:place], b""):
        path.write_bytes(damaged)
        with pytest.raises(StoreError):
            read_snapshot(path, sealer)
    with opened(tmp_path) as (journal, known):
        assert_says(take(known, day[50:60]), batch_code(day[:60]))
    assert "reading training rows and journal instead" in caplog.text


def test_another_key_does_not_open_a_snapshot_and_nothing_in_it_can_be_read(tmp_path, day):
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:50])
    path = tmp_path / FOLDER / FILE_NAME
    with pytest.raises(StoreError):
        read_snapshot(path, Sealer(bytes(32)))
    raw = path.read_bytes()
    for word in (*day["MessageId"][:50], *live_world().history["MessageId"][:50], "arrays"):
        assert word.encode() not in raw
    assert path.stat().st_mode & 0o077 == 0


def test_a_snapshot_of_another_journal_is_not_used(tmp_path, day):
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:50])
    (tmp_path / FOLDER / "journal.db").unlink()
    with opened(tmp_path) as (journal, known):
        assert_says(take(known, day[50:60]), batch_code(day[50:60]))


def test_a_disk_that_is_full_stops_no_payment(tmp_path, day, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_snapshot", full)
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:50])
    assert "No space left" in caplog.text


def test_large_arrays_are_stored_in_pieces(tmp_path, day, monkeypatch):
    monkeypatch.setattr(snapshot_file, "_PIECE_BYTES", 1000)
    with opened(tmp_path) as (journal, known):
        decide(journal, known, day[:50])
        expected = known._known.snapshot()
    with opened(tmp_path) as (journal, known):
        found = known._known.snapshot()
        assert found.arrays.keys() == expected.arrays.keys()
        assert_says(take(known, day[50:60]), batch_code(day[:60]))


# Killed.


def test_killed_at_any_moment_features_go_on_as_if_nothing_had_happened(tmp_path, day):
    """Each time in the middle of some batch: before its decisions are written, or after."""
    live_world().history.write_parquet(tmp_path / "train.parquet")
    day.write_parquet(tmp_path / "day.parquet")
    program = "import sys; from pathlib import Path; from tests.kit.known_writer import main;"
    program += "main(Path(sys.argv[1]))"
    for n_lines in (12, 30, 10**6):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
        ) as writer:
            for _ in zip(range(n_lines), writer.stdout, strict=False):
                pass
            writer.send_signal(signal.SIGKILL)
    with Journal.open(tmp_path, KEY) as journal:
        answers = [entry.answer for entry in journal.decisions()]
        with closing(known_of(tmp_path, journal)) as known:
            assert len(known) == live_world().history.height + day.height
    expected = batch_code(day).features.values
    assert answers == [row.tobytes().hex() for row in expected]
    assert len(answers) > 10 * BATCH
    assert np.isfinite(expected).all()
