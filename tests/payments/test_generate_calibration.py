"""Generated data meets the published facts (data of 150,000 messages, one fixed seed).

The seed is fixed, so none of these tests can fail by chance; tolerances are at least four standard
deviations of the figure at this size, and a comment says what a miss would mean.
"""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from tests.kit.generated import N_BANKS, N_MESSAGES, all_rows, all_rows_of, tables

from pv4fad.payments.generate import Difficulty, Settings, calibration_facts, generate_tables
from pv4fad.payments.generate.accounts import draw_pool

BOTH = pytest.mark.parametrize("difficulty", list(Difficulty))
FLAGGED_BENEFICIARY = pl.col("BeneficiaryFlag").fill_null("00") != "00"
FLAGGED_ORDERING = pl.col("OrderingFlag").fill_null("00") != "00"
ABSENT = pl.col("BeneficiaryFlag").is_null() | pl.col("OrderingFlag").is_null()


@BOTH
def test_sizes_are_those_of_the_original_to_scale(difficulty):
    made, rows = tables(difficulty), all_rows_of(difficulty)
    assert rows.height == N_MESSAGES
    accounts = sum(frame.height for frame in made.accounts.values())
    assert accounts == round(N_MESSAGES * 527_503 / 5_396_833)
    # 228,006 beneficiary and 329,823 ordering accounts of 527,503; 23.7 messages per beneficiary.
    assert rows["BeneficiaryAccount"].n_unique() == pytest.approx(accounts * 0.4322, rel=0.02)
    assert rows["OrderingAccount"].n_unique() == pytest.approx(accounts * 0.6253, rel=0.02)
    # 4,691,725 of 5,396,833 messages are for training: 86.9 %.
    assert made.train.transactions.height / N_MESSAGES == pytest.approx(0.869, abs=0.005)
    assert rows["Sender"].n_unique() == 16
    assert rows["Receiver"].n_unique() == 27
    assert len(made.accounts) == N_BANKS


@BOTH
def test_one_message_in_a_thousand_is_anomalous(difficulty):
    labels = all_rows_of(difficulty)["Label"]
    # Anomalies are drawn to number; only whole payments make it inexact.
    assert labels.mean() == pytest.approx(4_900 / 4_691_725, rel=0.05)


@BOTH
def test_sender_and_currency_shares_are_the_published_ones(difficulty):
    rows = all_rows_of(difficulty)
    senders = rows["Sender"].value_counts(sort=True)["count"].to_numpy() / N_MESSAGES * 100
    np.testing.assert_allclose(senders[:7], [41.8, 15.0, 11.3, 11.0, 7.7, 5.8, 1.7], atol=1.0)
    currencies = dict(rows["SettlementCurrency"].value_counts().iter_rows())
    for code, share in {"EUR": 50, "USD": 32, "GBP": 16, "JPY": 1.6}.items():
        assert currencies[code] / N_MESSAGES * 100 == pytest.approx(share, abs=1.2)


def test_other_currencies_are_anomalies_in_challenge_only():
    minor = ~pl.col("SettlementCurrency").cast(pl.String).is_in(["EUR", "USD", "GBP", "JPY"])
    challenge = all_rows_of(Difficulty.CHALLENGE).filter(minor)
    assert challenge.height > 10
    assert challenge["Label"].min() == 1
    assert all_rows_of(Difficulty.HARD).filter(minor)["Label"].min() == 0


@BOTH
def test_payments_have_one_to_three_legs_about_an_hour_apart(difficulty):
    legs = (
        all_rows_of(difficulty)
        .sort("Timestamp")
        .group_by("UETR", maintain_order=True)
        .agg(
            pl.len().alias("n"),
            pl.col("Timestamp").diff().drop_nulls().dt.total_minutes().alias("gaps"),
            (pl.col("Sender").slice(1) == pl.col("Receiver").slice(0, pl.len() - 1))
            .all()
            .alias("connected"),
            pl.col(
                "InstructedAmount", "InstructedCurrency", "OrderingAccount", "BeneficiaryAccount"
            ).n_unique(),
            (pl.col("SettlementAmount").diff().drop_nulls() <= 0).all().alias("net of charges"),
        )
    )
    assert set(legs["n"]) == {1, 2, 3}
    assert legs["gaps"].explode().mean() == pytest.approx(60, abs=2)
    assert legs["connected"].all()
    assert legs["net of charges"].all()
    for constant in (
        "InstructedAmount",
        "InstructedCurrency",
        "OrderingAccount",
        "BeneficiaryAccount",
    ):
        assert legs[constant].max() == 1


def test_amounts_are_log_normal_by_sender_and_currency():
    rows = all_rows_of(Difficulty.CHALLENGE).filter(pl.col("Label") == 0)
    first_legs = rows.filter(pl.col("Timestamp") == pl.col("Timestamp").min().over("UETR"))
    group = max(
        first_legs.partition_by("Sender", "InstructedCurrency"), key=lambda part: part.height
    )
    logs = group["InstructedAmount"].log().to_numpy()
    standard = (logs - logs.mean()) / logs.std()
    # Standard errors at n > 10,000: 0.025 and 0.05.  A mixture of two means one deviation apart
    # has a kurtosis of -0.08, a Student t with 10 degrees of freedom one of 1.
    assert len(standard) > 10_000
    assert abs((standard**3).mean()) < 0.1
    assert abs((standard**4).mean() - 3) < 0.2


def test_senders_have_peaked_hours_of_their_own():
    rows = all_rows_of(Difficulty.CHALLENGE)
    starts = rows.filter(pl.col("Timestamp") == pl.col("Timestamp").min().over("UETR"))
    peaks = []
    for sender in starts["Sender"].value_counts(sort=True)["Sender"][:6]:
        hours = starts.filter(pl.col("Sender") == sender)["Timestamp"].dt.hour().to_numpy()
        counts = np.bincount(hours, minlength=24)
        assert np.sort(counts)[-6:].sum() > 0.85 * len(hours)
        peaks.append(int(counts.argmax()))
    assert len(set(peaks)) > 1


@BOTH
def test_test_data_is_later_and_shares_no_payment(difficulty):
    made = tables(difficulty)
    train, test = made.train.transactions, made.test.transactions
    cut = dt.datetime(2022, 1, 21)
    assert train["Timestamp"].max() < cut <= test["Timestamp"].min()
    assert test["Timestamp"].max() < dt.datetime(2022, 1, 24)
    assert not set(train["UETR"]) & set(test["UETR"])
    assert train["MessageId"].str.starts_with("TR").all()
    assert test["MessageId"].str.starts_with("TE").all()
    assert pl.concat([train, test])["MessageId"].is_unique().all()


@BOTH
def test_kinds_are_those_of_the_labelled_messages(difficulty):
    made = tables(difficulty)
    for split in (made.train, made.test):
        labelled = split.transactions.filter(pl.col("Label") == 1)["MessageId"]
        assert split.kinds["MessageId"].to_list() == labelled.to_list()
    kinds = pl.concat([made.train.kinds, made.test.kinds])
    shares = {kind: n / kinds.height for kind, n in kinds["Kind"].value_counts().iter_rows()}
    assert len(shares) == 10
    # Two legs more or less of about 157 anomalous messages.
    assert shares["flagged_beneficiary"] == pytest.approx(800 / 4900, abs=0.02)
    assert shares["absent_beneficiary"] == pytest.approx(111 / 4900, abs=0.02)
    assert shares["absent_ordering"] == pytest.approx(103 / 4900, abs=0.02)


def test_in_challenge_a_bank_record_is_a_perfect_rule():
    rows = all_rows_of(Difficulty.CHALLENGE)
    assert rows.filter(FLAGGED_ORDERING).height == 0
    conspicuous = rows.filter(FLAGGED_BENEFICIARY | ABSENT)
    assert conspicuous["Label"].min() == 1
    # 1,014 of 4,900 anomalies.
    assert conspicuous.height / rows["Label"].sum() == pytest.approx(0.207, abs=0.03)


def test_in_hard_normal_traffic_touches_flagged_accounts():
    normal = all_rows_of(Difficulty.HARD).filter(pl.col("Label") == 0)
    touching = normal.filter(FLAGGED_BENEFICIARY | FLAGGED_ORDERING)
    assert touching.height / normal.height == pytest.approx(0.002, rel=0.05)
    assert touching.filter(FLAGGED_ORDERING).height > 0
    mild = touching.filter(
        pl.coalesce(
            pl.when(FLAGGED_BENEFICIARY).then(pl.col("BeneficiaryFlag")), pl.col("OrderingFlag")
        ).is_in(["03", "04", "05"])
    )
    # Whole relations are drawn, about 80: 0.6 to 0.95 is more than four deviations.
    assert 0.6 < mild.height / touching.height < 0.95


def test_in_hard_a_fifth_of_the_bank_visible_anomalies_has_no_record():
    made = generate_tables(
        Settings(N_MESSAGES, N_BANKS, Difficulty.HARD, seed=3, anomaly_rate=0.01)
    )
    kinds = pl.concat([made.train.kinds, made.test.kinds])
    bank_kinds = ["flagged_beneficiary", "absent_beneficiary", "absent_ordering"]
    seen = all_rows(made).join(kinds, on="MessageId").filter(pl.col("Kind").is_in(bank_kinds))
    on_record = seen.select((FLAGGED_BENEFICIARY | ABSENT).cast(pl.Int8))["BeneficiaryFlag"]
    assert on_record.to_list() == seen["VisibleAtBank"].to_list()
    # About 400 messages of 250 payments, drawn to number: whole payments make it inexact.
    assert on_record.mean() == pytest.approx(0.8, abs=0.03)


@BOTH
def test_statistical_kinds_overlap_more_in_hard(difficulty):
    """Days to settlement: how many messages with an anomalous delay are normal ones."""
    rows = all_rows_of(difficulty)
    delay = (pl.col("SettlementDate") - pl.col("Timestamp").dt.date()).dt.total_days()
    unusual = rows.filter(~delay.is_between(0, 2))
    normal_share = 1 - unusual["Label"].mean()
    # One look-alike for every four anomalies, or for every two and a half.
    low, high = {"challenge": (0.1, 0.3), "hard": (0.25, 0.5)}[difficulty]
    assert low < normal_share < high


@BOTH
def test_every_account_is_in_one_file_and_at_its_own_bank(difficulty):
    made, rows = tables(difficulty), all_rows_of(difficulty)
    bank_of_file = {}
    for client, frame in made.accounts.items():
        assert frame.columns == ["Bank", "Account", "Name", "Street", "CountryCityZip", "Flags"]
        assert frame["Bank"].n_unique() == 1
        bank_of_file[client] = frame["Bank"][0]
    assert len(set(bank_of_file.values())) == N_BANKS
    assert pl.concat(made.accounts.values())["Account"].is_unique().all()
    # No payment of a normal account is routed to a bank that does not keep it.
    assert rows.filter(pl.col("Label") == 0).filter(ABSENT).height == 0
    absent = rows.filter(ABSENT)
    known = pl.concat(made.accounts.values())["Account"].implode()
    both_known = absent.filter(
        pl.col("OrderingAccount").is_in(known) & pl.col("BeneficiaryAccount").is_in(known)
    )
    assert both_known.height == 0


def test_flags_are_50_to_64_per_code_in_the_size_of_the_original():
    load = np.full(N_BANKS, 1000)
    pool = draw_pool(527_503, load, load, np.random.default_rng(5))
    codes, counts = np.unique(pool.flag, return_counts=True)
    assert codes.tolist() == ["00", "01", "03", "04", "05", "06", "07", "08", "09", "10", "11"]
    assert counts[1:].min() >= 50
    assert counts[1:].max() <= 64
    assert counts.sum() == 527_503


@pytest.mark.parametrize("n_banks", [3, 4, 60])
def test_other_numbers_of_banks_keep_the_rules(n_banks):
    made = generate_tables(Settings(6_000, n_banks, Difficulty.CHALLENGE, 2, anomaly_rate=0.02))
    rows = all_rows(made)
    assert rows.height == 6_000
    assert len(made.accounts) == n_banks
    assert min(frame.height for frame in made.accounts.values()) > 0
    assert pl.concat(made.accounts.values())["Flags"].value_counts()["count"].min() >= 3
    assert rows.filter(pl.col("Label") == 0).filter(ABSENT | FLAGGED_BENEFICIARY).height == 0
    assert rows["Label"].mean() == pytest.approx(0.02, rel=0.1)


def test_the_facts_shown_are_those_of_the_data():
    made, rows = tables(Difficulty.HARD), all_rows_of(Difficulty.HARD)
    shown = {fact.name: fact.here for fact in calibration_facts(made)}
    n_anomalous, normal = rows["Label"].sum(), rows.filter(pl.col("Label") == 0)
    flagged = rows.filter(FLAGGED_BENEFICIARY)["Label"].sum() / n_anomalous
    assert shown["anomalies with flagged beneficiary"] == f"{100 * flagged:.1f} %"
    touched = normal.filter(FLAGGED_BENEFICIARY | FLAGGED_ORDERING).height / normal.height
    assert shown["normal messages with flagged account"] == f"{100 * touched:.2f} %"
    assert shown["legs per payment"] == "1 to 3"
    assert shown["minutes between legs, mean"] in {"60", "61"}
    assert shown["senders"] == "16"
