"""Labels from the desk: they replace those of the data, and the run says how many they were."""

import numpy as np
import polars as pl
import pytest
from tests.kit.small_federation import records_of, small_tables

from pv4fad.errors import DataError
from pv4fad.lead.data import bank_directory
from pv4fad.lead.desk_labels import DeskLabels, read_desk_labels, relabelled, rows_as_trained
from pv4fad.lead.prepare import prepare_run, read_training_record
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.schema import SCHEMA
from pv4fad.store.store import MemoryStore


@pytest.fixture(scope="module")
def rows():
    return small_tables().train.transactions


def write(path, ids, labels):
    pl.DataFrame({"MessageId": ids, "Label": labels}).write_csv(path)
    return read_desk_labels(SCHEMA, path)


def test_labels_of_the_desk_replace_those_of_the_data(rows, tmp_path):
    ids = rows["MessageId"].head(5).to_list()
    opposite = (1 - rows["Label"].head(5).cast(pl.Int8)).to_list()
    labels = write(tmp_path / "labels.csv", [*ids, "not in the data"], [*opposite, 1])
    changed, used = relabelled(SCHEMA, rows, labels)
    assert changed.drop("Label").equals(rows.drop("Label"))
    assert changed["Label"].head(5).to_list() == opposite
    assert changed["Label"].tail(-5).equals(rows["Label"].tail(-5))
    assert changed.schema == rows.schema
    assert list(used.ids) == ids


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("MessageId,Label\nA,1\nA,0\n", "more than once"),
        ("MessageId,Label\nA,maybe\n", "Label"),
        ("MessageId\nA\n", "Label"),
        ("Label\n1\n", "MessageId"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, error):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(DataError, match=error):
        read_desk_labels(SCHEMA, tmp_path / "labels.csv")


def test_labels_about_other_payments_are_refused(rows):
    with pytest.raises(DataError, match="none of which is in the training data"):
        relabelled(SCHEMA, rows, DeskLabels(("elsewhere",), np.ones(1, np.int8)))


def test_a_run_notes_the_share_and_knows_its_rows_again(rows):
    tables = small_tables()
    records = records_of(tables.accounts, "bank01", "bank02")
    data = LeadData(SCHEMA, rows, bank_directory(records))
    sizes = {bank: frame.height for bank, frame in records.items()}
    settings = TrainingSettings(epsilon="none", seed=5)
    normal = rows.filter(pl.col("Label") == 0)["MessageId"].head(4).to_list()
    labels = DeskLabels((*normal, "elsewhere"), np.array([1, 1, 1, 0, 1], np.int8))
    new = prepare_run(data, sizes, settings, labels)
    store = MemoryStore("payment-network")
    new.store(store)
    run = new.parameters.run_id
    trained = read_training_record(store, run)
    noted = trained.alert_labels
    n_anomalies = int((rows["Label"] == 1).sum()) + 3
    assert (noted.rows, noted.of_rows) == (4, rows.height)
    assert (noted.anomalies, noted.of_anomalies) == (3, n_anomalies)
    assert noted.share == 4 / rows.height
    again = rows_as_trained(SCHEMA, store, run, rows, trained.transactions)
    assert again.filter(pl.col("MessageId").is_in(normal))["Label"].to_list() == [1, 1, 1, 0]
    assert rows_as_trained(SCHEMA, store, run, rows.head(50), trained.transactions) is None


def test_a_run_without_labels_of_the_desk_says_so(rows):
    tables = small_tables()
    records = records_of(tables.accounts, "bank01", "bank02")
    data = LeadData(SCHEMA, rows, bank_directory(records))
    sizes = {bank: frame.height for bank, frame in records.items()}
    new = prepare_run(data, sizes, TrainingSettings(epsilon="none", seed=5))
    assert (new.private.alert_labels.rows, new.private.alert_labels.share) == (0, 0)
