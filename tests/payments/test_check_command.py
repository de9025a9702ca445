"""`pv4fad data check`, end to end: good data, and a walk through every kind of bad input."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from tests.kit.small_tables import accounts, transactions, write_small_challenge

from pv4fad.payments.challenge import write_table

Run = Callable[..., tuple[int, str, str]]
RATED = Path(__file__).parents[2] / "examples" / "payments" / "schema.toml"
SWIFT = "scenario01/train/swift/swift_transaction_train_dataset.csv"
RULES = "scenario01/train/bank01/rules.toml"
BANK = "scenario01/train/bank01/bank_dataset.csv"


@pytest.fixture
def check(tmp_path: Path, command_line: Run) -> Run:
    """Runs `pv4fad data check` on the small challenge folder: exit code, output, error lines."""
    write_small_challenge(tmp_path)
    return partial(command_line, "data", "check", tmp_path)


def _errors(err: str) -> list[str]:
    return [line.removeprefix("error: ") for line in err.splitlines() if "error: " in line]


def test_good_data_ends_with_code_0_and_a_readable_summary(check: Run) -> None:
    code, out, err = check()
    assert (code, _errors(err)) == (0, [])
    assert "1 of 4 anomalous (25.000%)" in out
    assert "1: MIDLUS33 (2)" in out
    assert "1 frozen" in out
    assert out.endswith("No problems found.\n")


def test_json_is_one_document_with_a_summary_per_split(check: Run) -> None:
    code, out, _ = check("--json")
    document = json.loads(out)
    assert code == 0
    assert document["problems"] == []
    assert [Path(p["folder"]).name for p in document["partitions"]] == ["train", "test"]
    assert [p["label_rate"] for p in document["partitions"]] == [0.25, None]
    assert document["partitions"][0]["beneficiary_join_rate"] == 0.75


def _change(column: str, value: str) -> Callable[[Path], None]:
    """Sets a column of the first two rows of the transactions."""

    def change(path: Path) -> None:
        early = pl.int_range(pl.len()) < 2
        cell = pl.when(early).then(pl.lit(value)).otherwise(column).alias(column)
        write_table(path, transactions().with_columns(cell))

    return change


def _flags(flags: dict[str, str]) -> Callable[[Path], None]:
    return lambda path: write_table(path, accounts("BANKFRPP", flags))


def _latin1(path: Path) -> None:
    table = accounts("BANKFRPP", {"1": "0"}).with_columns(Name=pl.lit("ZOË"))
    path.write_bytes(table.write_csv().encode("latin-1"))


def _rules(text: str) -> Callable[[Path], None]:
    """Writes a bank's own rules, beside its accounts."""
    return lambda path: path.with_name("rules.toml").write_text(f"[[rules]]\n{text}") and None


BAD_INPUT: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "missing column": (
        SWIFT,
        lambda path: write_table(path, transactions().drop("Receiver")),
        "column Receiver: missing from the file",
    ),
    "wrong type": (
        SWIFT,
        _change("InstructedAmount", "many"),
        "column InstructedAmount: 2 rows have no number",
    ),
    "unparsable date": (
        SWIFT,
        _change("Timestamp", "yesterday"),
        "column Timestamp: 2 rows have an unparsable date (expected YYYY-MM-DD hh:mm:ss)",
    ),
    "negative amount": (
        SWIFT,
        _change("SettlementAmount", "-3"),
        "column SettlementAmount: 2 rows have a negative amount",
    ),
    "duplicate MessageId": (
        SWIFT,
        _change("MessageId", "TR00000007"),
        "column MessageId: 1 row has a duplicate MessageId; first: data row 2",
    ),
    "no value": (
        SWIFT,
        _change("UETR", ""),
        "column UETR: 2 rows have no value; first: data row 1",
    ),
    "invalid BIC": (SWIFT, _change("Sender", "BANK"), "column Sender: 2 rows have an invalid BIC"),
    "unknown flag": (
        BANK,
        _flags({"1": "0", "2": "02"}),
        "column Flags: 1 row has an unknown flag",
    ),
    "conflicting flags": (
        BANK,
        _flags({"1": "0", "a1": "0", "A1": "1"}),
        "column Flags: 2 rows have a duplicate account with conflicting flags; first: data row 2",
    ),
    "empty file": (BANK, lambda path: path.write_bytes(b"") and None, "the file is empty"),
    "wrong encoding": (BANK, _latin1, "column Name: 1 row has bytes that are not UTF-8"),
    "rules that cannot be read": (RULES, _rules("class = "), "Invalid value"),
    "a rule with an unknown class": (
        RULES,
        _rules('class = "on ice"\ncolumn = "Flags"\nis = "07"'),
        "rule 1 (class 'on ice'): there is no such class",
    ),
    "a rule about an absent column": (
        BANK,
        _rules('class = "frozen"\ncolumn = "Rating"\nat_least = 7'),
        "column Rating: missing from the file",
    ),
    "a rule that does not fit its column": (
        BANK,
        _rules('class = "frozen"\ncolumn = "Name"\nat_least = 7'),
        "rule 1 (class 'frozen'): column 'Name' (String) cannot be compared with the number 7",
    ),
    "absent file": (BANK, Path.unlink, "not found, or not a file"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_ends_with_code_2_and_one_line(check: Run, tmp_path: Path, case: str) -> None:
    file, spoil, message = BAD_INPUT[case]
    spoil(tmp_path / file)
    code, out, err = check()
    assert code == 2
    (line,) = _errors(err)
    assert line.startswith(f"{tmp_path / file}: {message}")
    assert "No problems found" not in out
    assert "scenario01/test" in out  # the other split is summarised all the same


def test_problems_are_in_the_json_document_and_the_code_is_2(check: Run, tmp_path: Path) -> None:
    _change("Label", "x")(tmp_path / SWIFT)
    code, out, _ = check("--json")
    document = json.loads(out)
    assert code == 2
    assert len(document["partitions"]) == len(document["problems"]) == 1


def test_everything_wrong_with_accounts_rules_and_schema_is_one_line_each(
    check: Run, tmp_path: Path
) -> None:
    _flags({"1": "0", "2": "02"})(tmp_path / BANK)
    for bank in ("bank01", "bank02"):
        file = tmp_path / "scenario01" / "train" / bank / "rules.toml"
        _rules('class = "odd"\ncolumn = "Flags"\nis = "07"')(file)
    other = RATED.read_text().replace('label = "Label"', 'label = "Fraud"')
    (tmp_path / "schema.toml").write_text(other)
    code, _, err = check()
    assert code == 2
    lines = _errors(err)
    assert sorted(line.removeprefix(f"{tmp_path}/").split(":")[0] for line in lines) == [
        "scenario01/train/bank01/bank_dataset.csv",
        "scenario01/train/bank01/rules.toml",
        "scenario01/train/bank02/rules.toml",
        "schema 'payments-rated'",
    ]
    assert "format is payments, which have no column 'Fraud'" in "".join(lines)


def test_classes_are_counted_where_they_are_not_just_flags(check: Run, tmp_path: Path) -> None:
    assert "bank bank0" not in check()[1]
    _rules('class = "frozen"\ncolumn = "Account"\nis = "FR01"')(tmp_path / BANK)
    code, out, _ = check("--json")
    ordinary, frozen = "ordinary", "frozen"
    train, test = json.loads(out)["partitions"]
    assert code == 0
    assert list(train["accounts_by_class"]) == ["bank01"]
    counts = train["accounts_by_class"]["bank01"]
    assert {name: n for name, n in counts.items() if n} == {ordinary: 1, frozen: 1}
    assert test["accounts_by_class"] == {}
    code, out, _ = check("--schema", RATED)
    assert code == 0
    assert "bank bank01" in out
    assert "2 accounts: 1 ordinary, 1 frozen" in out


def test_only_columns_that_no_rule_reads_are_noted_as_ignored(check: Run, tmp_path: Path) -> None:
    table = accounts("BANKFRPP", {"1": "0"}).with_columns(Rating=pl.lit(9), Colour=pl.lit("red"))
    write_table(tmp_path / BANK, table)
    assert "extra columns ignored: Rating, Colour" in check()[1]
    _rules('class = "frozen"\ncolumn = "Rating"\nat_least = 7')(tmp_path / BANK)
    assert "extra columns ignored: Colour" in check()[1]


def test_bad_rows_are_dropped_before_rules_are_applied(check: Run, tmp_path: Path) -> None:
    _flags({"1": "0", "2": "02"})(tmp_path / BANK)
    _rules('class = "frozen"\ncolumn = "Account"\nis = "1"')(tmp_path / BANK)
    code, out, _ = check("--drop-bad-rows")
    assert code == 0
    assert "1 account: 1 frozen" in out


def test_rows_dropped_on_request_are_counted_and_reported(check: Run, tmp_path: Path) -> None:
    _change("Label", "x")(tmp_path / SWIFT)
    code, out, _ = check("--drop-bad-rows")
    assert code == 0
    assert "column Label: 2 rows have a label other than 0 and 1" in out
    assert "2 of 4 rows dropped" in out


def test_folder_that_does_not_exist_is_one_line_and_code_2_from_the_shell(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pv4fad", "data", "check", str(tmp_path / "gone")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == f"error: {tmp_path / 'gone'}: not found, or not a folder\n"
