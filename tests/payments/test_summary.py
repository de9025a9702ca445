"""Claims about the summary of a split, on the small challenge folder."""

from datetime import datetime
from pathlib import Path

import pytest
from tests.kit.small_tables import transactions, write_small_challenge

from pv4fad.payments.challenge import write_partition
from pv4fad.payments.loading import load_partition
from pv4fad.payments.summary import PartitionSummary, summarise


@pytest.fixture
def train(tmp_path: Path) -> PartitionSummary:
    return summarise(load_partition(write_small_challenge(tmp_path)))


def test_rows_payments_and_period_are_counted(train: PartitionSummary) -> None:
    assert (train.n_transactions, train.n_payments, train.n_multi_leg_payments) == (4, 3, 1)
    assert train.first_timestamp == datetime(2022, 1, 5, 8, 17)
    assert train.last_timestamp == datetime(2022, 1, 7, 11, 30)
    assert (train.n_senders, train.n_receivers) == (3, 3)


def test_label_rate_is_the_share_of_anomalous_messages(train: PartitionSummary) -> None:
    assert (train.n_anomalous, train.label_rate) == (1, 0.25)


def test_unlabelled_data_has_no_label_rate(tmp_path: Path) -> None:
    test = summarise(load_partition(write_small_challenge(tmp_path).parent / "test"))
    assert (test.n_anomalous, test.label_rate) == (None, None)


def test_accounts_are_counted_by_flag(train: PartitionSummary) -> None:
    assert (train.n_bank_files, train.n_banks, train.n_accounts) == (2, 2, 4)
    assert {code: n for code, n in train.accounts_by_flag.items() if n} == {"00": 3, "07": 1}
    assert len(train.accounts_by_flag) == 11


def test_join_rates_follow_the_routing(train: PartitionSummary) -> None:
    # Every ordering account is at the sender of the first leg.  The beneficiary of u1 is not at
    # MIDLUS33, where the first leg ends, but at BANKDEFF, the end of the second; u3's is absent.
    assert (train.ordering_join_rate, train.beneficiary_join_rate) == (1.0, 0.75)


def test_institution_without_accounts_is_named(train: PartitionSummary) -> None:
    assert train.institutions_without_accounts == {"MIDLUS33": 2}


def test_without_bank_files_nothing_joins(tmp_path: Path) -> None:
    write_partition(tmp_path / "train", transactions(), {})
    summary = summarise(load_partition(tmp_path / "train"))
    assert (summary.ordering_join_rate, summary.beneficiary_join_rate) == (0.0, 0.0)
    assert summary.institutions_without_accounts == {"BANKDEFF": 3, "BANKFRPP": 3, "MIDLUS33": 2}


def test_transaction_within_one_institution_is_one_transaction(tmp_path: Path) -> None:
    within = transactions().head(1).with_columns(Receiver="Sender")
    write_partition(tmp_path / "train", within, {})
    summary = summarise(load_partition(tmp_path / "train"))
    assert summary.institutions_without_accounts == {"BANKFRPP": 1}
