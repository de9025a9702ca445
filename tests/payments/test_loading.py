"""Claims about loading: what is accepted, what is refused and how, what is counted."""

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest
from tests.kit.small_tables import accounts, transactions, write_small_challenge

from pv4fad.errors import DataError
from pv4fad.payments.challenge import write_table
from pv4fad.payments.kinds import ACCOUNT
from pv4fad.payments.loading import (
    load_account_classes,
    load_accounts,
    load_partition,
    load_transactions,
)
from pv4fad.payments.schema import ACCOUNT_SCHEMA, FLAG_CODES, SCHEMA, TRANSACTION_SCHEMA
from pv4fad.rules import rules_of

ROW = "(counted from 1 after the header)"


def _load_transactions(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    write_table(path, frame)
    return load_transactions(path, labels_required=True).frame


def _set(frame: pl.DataFrame, column: str, row: int, value: str | None) -> pl.DataFrame:
    """The frame with another value in one cell; rows are counted from 1."""
    here = pl.int_range(pl.len()) == row - 1
    return frame.with_columns(pl.when(here).then(pl.lit(value)).otherwise(column).alias(column))


def _refusal(load: Callable[[], object]) -> list[str]:
    """The lines of the one DataError that `load` raises."""
    with pytest.raises(DataError) as refusal:
        load()
    return str(refusal.value).splitlines()


# Accepted


def test_loaded_values_have_the_types_of_the_schema(tmp_path: Path) -> None:
    frame = _load_transactions(tmp_path / "t.csv", transactions())
    assert frame.schema == TRANSACTION_SCHEMA
    first = frame.row(0, named=True)
    assert first["Timestamp"] == datetime(2022, 1, 5, 8, 17)
    assert first["SettlementDate"] == date(2022, 1, 5)
    assert (first["SettlementAmount"], first["Label"]) == (100.25, 0)
    assert frame["OrderingName"].null_count() == 1


def test_csv_and_parquet_load_the_same(tmp_path: Path) -> None:
    from_csv = _load_transactions(tmp_path / "t.csv", transactions())
    as_text = _load_transactions(tmp_path / "text.parquet", transactions())
    as_values = _load_transactions(tmp_path / "values.parquet", from_csv)
    assert from_csv.equals(as_text)
    assert from_csv.equals(as_values)


def test_parquet_may_store_numbers_and_other_time_units(tmp_path: Path) -> None:
    typed = _load_transactions(tmp_path / "t.csv", transactions())
    other = typed.with_columns(
        pl.col("Timestamp").cast(pl.Datetime("ms")).dt.replace_time_zone("UTC"),
        pl.col("SettlementDate").dt.to_string("%y%m%d").cast(pl.Int32),
        pl.col("Label").cast(pl.Boolean),
        pl.col("SettlementAmount").cast(pl.Float32),
    )
    assert _load_transactions(tmp_path / "t.parquet", other).equals(typed)


def test_identifiers_are_canonical_after_loading(tmp_path: Path) -> None:
    messy = _set(transactions(), "OrderingAccount", 1, " fr 01")
    messy = _set(messy, "Sender", 1, "bankfrpp500")
    plain = _load_transactions(tmp_path / "a.csv", transactions())
    assert _load_transactions(tmp_path / "b.csv", messy).equals(plain)


def test_there_are_eleven_flag_codes_and_no_02() -> None:
    assert FLAG_CODES == ("00", "01", "03", "04", "05", "06", "07", "08", "09", "10", "11")


def test_every_spelling_of_a_flag_is_accepted(tmp_path: Path) -> None:
    spellings = {"00": "00", "0": "00", "1": "01", "01": "01", " 3": "03", "3 ": "03", "11": "11"}
    path = tmp_path / "b.csv"
    write_table(path, accounts("BANKFRPP", {f"A{n}": flag for n, flag in enumerate(spellings)}))
    frame = load_accounts(path).frame
    assert frame.schema == ACCOUNT_SCHEMA
    assert frame["Flags"].to_list() == list(spellings.values())


def test_flags_stored_as_numbers_become_atoms_in_order(tmp_path: Path) -> None:
    numbers = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    path = tmp_path / "b.parquet"
    table = accounts("BANKFRPP", {f"A{n}": str(n) for n in numbers})
    write_table(path, table.with_columns(pl.col("Flags").cast(pl.Int64)))
    assert load_accounts(path).frame["Flags"].to_physical().to_list() == list(range(11))


@pytest.mark.parametrize("text", ["2022-01-05 08:17:00", "2022-01-05T08:17:00"])
def test_both_usual_spellings_of_a_timestamp_are_accepted(tmp_path: Path, text: str) -> None:
    frame = _load_transactions(tmp_path / "t.csv", _set(transactions(), "Timestamp", 1, text))
    assert frame["Timestamp"][0] == datetime(2022, 1, 5, 8, 17)


def test_blank_name_and_address_are_information_not_an_error(tmp_path: Path) -> None:
    frame = transactions()
    blank = ["OrderingName", "OrderingStreet", "BeneficiaryCountryCityZip"]
    for column in blank:
        frame = _set(frame, column, 1, "  ")
    loaded = _load_transactions(tmp_path / "t.csv", frame)
    assert loaded.select(blank).row(0) == (None, None, None)


def test_extra_columns_are_ignored_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_table(path, transactions().with_columns(Colour=pl.lit("red")))
    table = load_transactions(path, labels_required=True)
    assert table.frame.schema == TRANSACTION_SCHEMA
    assert table.report.extra_columns == ("Colour",)
    assert table.report.notes() == [f"{path}: extra columns ignored: Colour"]


def test_file_order_of_columns_does_not_matter(tmp_path: Path) -> None:
    turned = transactions().select(reversed(transactions().columns))
    expected = _load_transactions(tmp_path / "a.csv", transactions())
    assert _load_transactions(tmp_path / "b.csv", turned).equals(expected)


def test_labels_of_test_data_are_loaded_and_checked_if_there(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_table(path, transactions())
    assert load_transactions(path, labels_required=False).has_labels
    write_table(path, _set(transactions(), "Label", 2, "7"))
    with pytest.raises(DataError, match="column Label"):
        load_transactions(path, labels_required=False)


def test_account_listed_again_with_the_same_flag_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    table = accounts("BANKFRPP", {"fr01": "3", "FR02": "0", "FR 01": "03"})
    write_table(path, table)
    loaded = load_accounts(path)
    assert loaded.frame["Account"].to_list() == ["FR01", "FR02"]
    assert loaded.report.n_repeated == 1
    assert loaded.report.notes() == [f"{path}: 1 repeated listings ignored"]


def test_same_id_at_two_banks_is_two_accounts(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    write_table(
        path, pl.concat([accounts(b, {"1": f}) for b, f in [("BANKFRPP", "0"), ("BANKDEFF", "1")]])
    )
    assert load_accounts(path).frame.height == 2


# Refused

BAD_CELLS = [
    ("MessageId", "", "no value"),
    ("Timestamp", "05/01/2022 08:17", "an unparsable date (expected YYYY-MM-DD hh:mm:ss)"),
    ("Timestamp", "2022-02-30 08:17:00", "an unparsable date (expected YYYY-MM-DD hh:mm:ss)"),
    ("Timestamp", "22-01-05 08:17:00", "an unparsable date (expected YYYY-MM-DD hh:mm:ss)"),
    ("UETR", "  ", "no value"),
    ("Sender", "BANK", "an invalid BIC"),
    ("Receiver", "", "no value"),
    ("OrderingAccount", " ", "no value"),
    ("SettlementDate", "221301", "an unparsable date (expected YYMMDD or YYYY-MM-DD)"),
    ("SettlementDate", "2022/01/05", "an unparsable date (expected YYMMDD or YYYY-MM-DD)"),
    ("SettlementDate", "20220105", "an unparsable date (expected YYMMDD or YYYY-MM-DD)"),
    ("SettlementCurrency", "EURO", "no three-letter currency code"),
    ("SettlementAmount", "-0.01", "a negative amount"),
    ("SettlementAmount", "1e18", "an amount of 10^18 or more"),
    ("InstructedAmount", "1000000000000000000", "an amount of 10^18 or more"),
    ("SettlementAmount", "1.000,25", "no number"),
    ("InstructedAmount", "nan", "no number"),
    ("InstructedAmount", "inf", "no number"),
    ("Label", "2", "a label other than 0 and 1"),
    ("Label", "", "no value"),
]


@pytest.mark.parametrize(("column", "value", "reason"), BAD_CELLS)
def test_bad_cell_is_refused_with_file_column_count_and_row(
    tmp_path: Path, column: str, value: str, reason: str
) -> None:
    path = tmp_path / "t.csv"
    frame = _set(_set(transactions(), column, 2, value), column, 4, value)
    assert _refusal(lambda: _load_transactions(path, frame)) == [
        f"{path}: column {column}: 2 rows have {reason}; first: data row 2 {ROW}"
    ]


@pytest.mark.parametrize("flag", ["02", "12", "-1", "x", "003", "1.0"])
def test_unknown_flag_is_refused(tmp_path: Path, flag: str) -> None:
    path = tmp_path / "b.csv"
    write_table(path, accounts("BANKFRPP", {"1": "0", "2": flag}))
    assert _refusal(lambda: load_accounts(path)) == [
        f"{path}: column Flags: 1 row has an unknown flag (known: {', '.join(FLAG_CODES)}); "
        f"first: data row 2 {ROW}"
    ]


def test_duplicate_message_id_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame = _set(transactions(), "MessageId", 4, transactions()["MessageId"][1])
    assert _refusal(lambda: _load_transactions(path, frame)) == [
        f"{path}: column MessageId: 1 row has a duplicate MessageId; first: data row 4 {ROW}"
    ]


def test_duplicate_account_with_conflicting_flags_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    write_table(path, accounts("BANKFRPP", {"FR02": "0", "FR01": "3", "fr01": "0"}))
    assert _refusal(lambda: load_accounts(path)) == [
        f"{path}: column Flags: 2 rows have a duplicate account with conflicting flags; "
        f"first: data row 2 {ROW}"
    ]


def test_rows_without_an_account_do_not_conflict_with_each_other(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    write_table(path, accounts("BANKFRPP", {"1": "0", "": "3", " ": "0"}))
    assert _refusal(lambda: load_accounts(path)) == [
        f"{path}: column Account: 2 rows have no value; first: data row 2 {ROW}"
    ]


def test_missing_column_is_refused_even_if_bad_rows_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_table(path, _set(transactions(), "Label", 1, "x").drop("Sender", "UETR"))
    lines = _refusal(lambda: load_transactions(path, labels_required=True, on_bad_rows="drop"))
    assert lines[:2] == [
        f"{path}: column UETR: missing from the file",
        f"{path}: column Sender: missing from the file",
    ]
    assert "column Label: 1 row has" in lines[2]


def test_wrong_separator_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    transactions().write_csv(path, separator=";")
    (line,) = _refusal(lambda: load_transactions(path, labels_required=True))
    assert "none of the expected columns" in line
    assert "commas" in line


def test_column_stored_as_a_wrong_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = transactions().with_columns(OrderingAccount=pl.lit(1), Timestamp=pl.lit(1.5))
    assert _refusal(lambda: _load_transactions(path, frame)) == [
        f"{path}: column Timestamp: stored as Float64, not as date and time (YYYY-MM-DD hh:mm:ss)",
        f"{path}: column OrderingAccount: stored as Int32, not as {ACCOUNT.name}",
    ]


def test_all_problems_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    frame = _set(_set(transactions(), "Sender", 3, "x"), "InstructedAmount", 2, "-5")
    lines = _refusal(lambda: _load_transactions(tmp_path / "t.csv", frame))
    assert [line.split(": ")[1] for line in lines] == ["column Sender", "column InstructedAmount"]


def test_bank_in_the_files_of_two_clients_is_refused(tmp_path: Path) -> None:
    train = write_small_challenge(tmp_path)
    write_table(train / "bank02" / "bank_dataset.csv", accounts("BANKFRPP", {"DE01": "0"}))
    (line,) = _refusal(lambda: load_partition(train))
    assert "bank02" in line
    assert "column Bank: BIC BANKFRPP, accounts: 1, is also in " in line


def test_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    train = write_small_challenge(tmp_path)
    for bank in ("bank01", "bank02"):
        write_table(train / bank / "bank_dataset.csv", accounts("BANK", {"1": "0"}))
    (train / "swift" / "swift_transaction_train_dataset.csv").unlink()
    lines = _refusal(lambda: load_partition(train))
    assert [Path(line.split(":")[0]).parent.name for line in lines] == ["bank01", "bank02", "swift"]


# Dropped by choice


def test_dropped_rows_are_counted_per_reason(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame = _set(_set(transactions(), "SettlementAmount", 1, "-1"), "Label", 1, "x")
    write_table(path, _set(frame, "MessageId", 4, transactions()["MessageId"][1]))
    table = load_transactions(path, labels_required=True, on_bad_rows="drop")
    assert table.frame["MessageId"].to_list() == transactions()["MessageId"].to_list()[1:3]
    report = table.report
    assert (report.n_rows_read, report.n_rows_dropped) == (4, 2)
    assert {(p.column, p.n_rows, p.example_row) for p in report.dropped} == {
        ("SettlementAmount", 1, 1),
        ("Label", 1, 1),
        ("MessageId", 1, 4),
    }
    assert report.notes()[-1] == f"{path}: 2 of 4 rows dropped"


def test_a_bad_row_does_not_take_a_good_one_with_the_same_id_along(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    ids = transactions()["MessageId"].to_list()
    frame = _set(_set(transactions(), "MessageId", 1, ids[3]), "Label", 1, "x")
    write_table(path, frame)
    table = load_transactions(path, labels_required=True, on_bad_rows="drop")
    assert table.frame["MessageId"].to_list() == ids[1:]


def test_every_listing_of_an_account_with_conflicting_flags_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    write_table(path, accounts("BANKFRPP", {"FR02": "0", "FR01": "3", "fr01": "0"}))
    table = load_accounts(path, on_bad_rows="drop")
    assert table.frame["Account"].to_list() == ["FR02"]
    assert table.report.n_rows_dropped == 2


def test_file_without_a_good_row_is_refused_even_if_bad_rows_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    write_table(path, accounts("BANKFRPP", {"1": "2"}))
    (line,) = _refusal(lambda: load_accounts(path, on_bad_rows="drop"))
    assert "no good row is left" in line


def test_columns_of_the_banks_own_are_read_as_they_are_stored(tmp_path):
    path = tmp_path / "bank_dataset.csv"
    header = "Bank,Account,Name,Street,CountryCityZip,Flags,Fines,Opened,Branch,Unused"
    rows = [
        "AAAADEFF,A1,N,S,Z,00,12.5,2020-01-31,west,x",
        "AAAADEFF,A2,N,S,Z,03,,2021-02-28,east,y",
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    table = load_accounts(path, further_columns=["Fines", "Opened", "Branch"])
    assert table.frame["Fines"].to_list() == ["12.5", None]
    assert table.frame["Opened"].to_list() == ["2020-01-31", "2021-02-28"]
    assert table.frame["Branch"].to_list() == ["west", "east"]
    assert table.report.extra_columns == ("Unused",)
    with pytest.raises(DataError, match="column Age: missing from the file"):
        load_accounts(path, further_columns=["Age"])
    path.write_text("\n".join([header, rows[0], rows[0].replace("12.5", "13")]) + "\n")
    with pytest.raises(
        DataError, match="Fines: 2 rows have a duplicate account with conflicting values"
    ):
        load_accounts(path, further_columns=["Fines"])


def test_a_banks_rules_give_its_accounts_their_classes(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    table = accounts("BANKFRPP", {"A": "00", "B": "3", "C": "7"})
    write_table(path, table.with_columns(Rating=pl.Series(["9", "1", None])))
    by_flag = load_account_classes(path, SCHEMA)
    assert by_flag["Class"].to_list() == ["ordinary", "recently opened", "frozen"]
    rules = rules_of([{"class": "under monitoring", "column": "Rating", "above": 5}])
    own = load_account_classes(path, SCHEMA, rules)
    assert own.rows()[0] == ("BANKFRPP", "A", "under monitoring")
    assert own["Class"].to_list()[1:] == ["ordinary", "ordinary"]
    wrong = rules_of([{"class": "frozen", "column": "Rating", "is": True}])
    assert _refusal(lambda: load_account_classes(path, SCHEMA, wrong)) == [
        f"{path}: rule 1 (class 'frozen'): column 'Rating' (String) cannot be compared with true: "
        "data row 1 has neither true nor false"
    ]
