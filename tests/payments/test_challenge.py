"""Claims about the folder layout."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.kit.small_tables import accounts, transactions, write_small_challenge

from pv4fad.errors import DataError
from pv4fad.payments.challenge import (
    find_partitions,
    read_partition,
    read_scenarios,
    write_partition,
    write_scenarios,
)
from pv4fad.payments.loading import load_partition


def test_layout_is_that_of_the_challenge(tmp_path: Path) -> None:
    write_small_challenge(tmp_path)
    assert (tmp_path / "scenarios.txt").read_text() == "scenario01\n"
    assert json.loads((tmp_path / "scenario01/train/partitions.json").read_text()) == {
        "swift": {"data_path": "swift_transaction_train_dataset.csv"},
        "bank01": {"data_path": "bank_dataset.csv"},
        "bank02": {"data_path": "bank_dataset.csv"},
    }
    predictions = pl.read_csv(tmp_path / "scenario01/test/swift/predictions_format.csv")
    assert predictions.columns == ["MessageId", "Score"]
    assert predictions["MessageId"].to_list() == transactions()["MessageId"].to_list()


def test_what_was_loaded_and_written_loads_the_same(tmp_path: Path) -> None:
    first = load_partition(write_small_challenge(tmp_path / "a"))
    copy = tmp_path / "b" / "train"
    write_partition(copy, first.transactions.frame, {c: t.frame for c, t in first.accounts.items()})
    second = load_partition(copy)
    assert second.transactions.frame.equals(first.transactions.frame)
    assert all(second.accounts[c].frame.equals(t.frame) for c, t in first.accounts.items())
    line = (copy / "swift" / "swift_transaction_train_dataset.csv").read_text().splitlines()[1]
    assert "2022-01-05 08:17:00" in line
    assert ",220105," in line
    assert (copy / "bank02" / "bank_dataset.csv").read_text().splitlines()[2].endswith(",07")


def test_splits_are_found_from_every_level(tmp_path: Path) -> None:
    train = write_small_challenge(tmp_path)
    splits = (train, train.parent / "test")
    assert find_partitions(tmp_path) == find_partitions(train.parent) == splits
    assert find_partitions(train) == (train,)


def test_client_files_are_in_the_folder_of_the_client(tmp_path: Path) -> None:
    train = write_small_challenge(tmp_path)
    partition = read_partition(train)
    assert partition.transactions == train / "swift" / "swift_transaction_train_dataset.csv"
    assert partition.accounts == {
        bank: train / bank / "bank_dataset.csv" for bank in ("bank01", "bank02")
    }


def test_only_test_data_may_lack_labels(tmp_path: Path) -> None:
    train = write_small_challenge(tmp_path)
    assert load_partition(train).transactions.has_labels
    assert not load_partition(train.parent / "test").transactions.has_labels
    write_partition(
        train, transactions().drop("Label"), {"bank01": accounts("BANKFRPP", {"1": "0"})}
    )
    with pytest.raises(DataError, match="column Label: missing"):
        load_partition(train)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON .* in line 1"),
        ("[]", "expected an object"),
        ('{"bank01": {"data_path": "b.csv"}}', "has no client 'swift'"),
        ('{"swift": "t.csv"}', "client 'swift' needs an object with a data_path"),
        ('{"swift": {"data_path": "../t.csv"}}', "'../t.csv' is not a plain file or folder name"),
        ('{"../swift": {"data_path": "t.csv"}}', "'../swift' is not a plain file or folder name"),
    ],
)
def test_bad_partitions_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "partitions.json").write_text(text)
    with pytest.raises(DataError, match=f"partitions.json: {message}"):
        read_partition(tmp_path)


def test_scenario_without_folder_is_refused(tmp_path: Path) -> None:
    write_scenarios(tmp_path, ["here", "gone"])
    (tmp_path / "here").mkdir()
    with pytest.raises(DataError, match="scenario 'gone' has no folder"):
        read_scenarios(tmp_path)


def test_challenge_without_scenarios_is_refused(tmp_path: Path) -> None:
    write_scenarios(tmp_path, [])
    with pytest.raises(DataError, match="no scenario is listed"):
        read_scenarios(tmp_path)


def test_folder_that_is_no_level_of_a_challenge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a challenge folder"):
        find_partitions(tmp_path)
    with pytest.raises(DataError, match="not found"):
        find_partitions(tmp_path / "gone")
