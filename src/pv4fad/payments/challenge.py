"""The folder layout of the challenge: where each party's files are, read and written.

    scenarios.txt                                    one scenario name per line
    <scenario>/{train,test}/partitions.json          {client id: {"data_path": file name}}
    <scenario>/{train,test}/<client id>/<data_path>  that client's table, .csv or .parquet;
                                                     payments also as .xml, .xml.gz, a folder
    <scenario>/test/swift/predictions_format.csv     MessageId, Score: the form of predictions

The payment network's client id is `swift`; every other client is a bank.  Commands accept the
whole folder, one scenario or one split, and choose what to train on and what to score.  They accept
the layout of data that are not payments (`tables.folder`) in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pv4fad.errors import DataError, ParameterError
from pv4fad.tables.folder import LEAD, is_table_split, table_files

SCENARIOS_FILE = "scenarios.txt"
PARTITIONS_FILE = "partitions.json"
PREDICTIONS_FORMAT_FILE = "predictions_format.csv"
PAYMENT_NETWORK_ID = "swift"
SPLITS = ("train", "test")
BANK_FILE = "bank_dataset.csv"

_TIMESTAMP_FORMAT = "%Y-%m-%d %H:%M:%S"
_SETTLEMENT_DATE_FORMAT = "%y%m%d"


@dataclass(frozen=True)
class Partition:
    """The files of one split: the payment network's transactions, each bank's accounts; or in
    general the lead's rows, each holder's records."""

    folder: Path
    transactions: Path
    accounts: Mapping[str, Path]  # bank client id, or name of the holder → file

    @property
    def labels_required(self) -> bool:
        """Test data may come without labels; all other data must have them."""
        return self.folder.name != "test"


def transactions_file(split: str) -> str:
    """The payment network's file name in a split, such as swift_transaction_train_dataset.csv."""
    return f"swift_transaction_{split}_dataset.csv"


def bank_client_id(number: int) -> str:
    """The client id of bank `number`, counted from 1: bank01, bank02, ..."""
    return f"bank{number:02d}"


def read_scenarios(root: Path) -> tuple[str, ...]:
    """The scenario names of a challenge folder, each with an existing folder."""
    path = root / SCENARIOS_FILE
    names = tuple(line.strip() for line in _read_text(path).splitlines() if line.strip())
    if not names:
        raise DataError(f"{path}: no scenario is listed; write one folder name per line")
    for name in names:
        _require_plain_name(path, name)
        if not (root / name).is_dir():
            raise DataError(f"{path}: scenario {name!r} has no folder beside it")
    return names


def is_split(folder: Path) -> bool:
    """Whether this folder is one split, in either layout."""
    return (folder / PARTITIONS_FILE).is_file() or is_table_split(folder)


def find_partitions(folder: Path) -> tuple[Path, ...]:
    """The split folders of a challenge folder, of a scenario, or the split folder itself."""
    if not folder.is_dir():
        raise DataError(f"{folder}: not found, or not a folder")
    if is_split(folder):
        return (folder,)
    if (folder / SCENARIOS_FILE).is_file():
        scenarios = [folder / name for name in read_scenarios(folder)]
    else:
        scenarios = [folder]
    return tuple(split for scenario in scenarios for split in _splits(scenario))


def _splits(scenario: Path) -> tuple[Path, ...]:
    folders = tuple(scenario / split for split in SPLITS if (scenario / split).is_dir())
    if not folders:
        raise DataError(
            f"{scenario}: not a challenge folder ({SCENARIOS_FILE}), a scenario (train, test) "
            f"or a split ({PARTITIONS_FILE} or {LEAD}/)"
        )
    return folders


def read_partition(folder: Path) -> Partition:
    """Where the files of a split are; their contents are not read."""
    path = folder / PARTITIONS_FILE
    if not path.is_file():
        if not is_table_split(folder):
            raise DataError(f"{path}: not found, and no folder {LEAD}/ either")
        return Partition(folder, *table_files(folder))
    try:
        clients = json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON ({error.msg} in line {error.lineno})") from None
    if not isinstance(clients, dict):
        raise DataError(f"{path}: expected an object of client ids")
    files = {client: _client_file(path, client, entry) for client, entry in clients.items()}
    if PAYMENT_NETWORK_ID not in files:
        raise DataError(f"{path}: has no client {PAYMENT_NETWORK_ID!r}, the payment network")
    transactions = files.pop(PAYMENT_NETWORK_ID)
    return Partition(folder, transactions, dict(sorted(files.items())))


def write_scenarios(root: Path, names: Sequence[str]) -> None:
    """Write scenarios.txt."""
    root.mkdir(parents=True, exist_ok=True)
    (root / SCENARIOS_FILE).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def write_partition(
    folder: Path, transactions: pl.DataFrame, accounts: Mapping[str, pl.DataFrame]
) -> Partition:
    """Write a split (the folder is named train or test): tables by bank client id, as CSV.

    A test split also gets predictions_format.csv.
    """
    files = {PAYMENT_NETWORK_ID: transactions_file(folder.name)}
    files |= dict.fromkeys(accounts, BANK_FILE)
    for client, frame in {PAYMENT_NETWORK_ID: transactions, **accounts}.items():
        (folder / client).mkdir(parents=True, exist_ok=True)
        write_table(folder / client / files[client], frame)
    if folder.name == "test":
        predictions = transactions.select("MessageId", Score=pl.lit(0.0))
        predictions.write_csv(folder / PAYMENT_NETWORK_ID / PREDICTIONS_FORMAT_FILE)
    entries = {client: {"data_path": name} for client, name in files.items()}
    (folder / PARTITIONS_FILE).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    return read_partition(folder)


def write_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a table as CSV in the challenge's spelling of dates, or as Parquet, by file ending."""
    if path.suffix == ".parquet":
        frame.write_parquet(path)
        return
    frame.write_csv(path, datetime_format=_TIMESTAMP_FORMAT, date_format=_SETTLEMENT_DATE_FORMAT)


def _client_file(path: Path, client: str, entry: Any) -> Path:
    name = entry.get("data_path") if isinstance(entry, dict) else None
    if not isinstance(name, str):
        raise DataError(f"{path}: client {client!r} needs an object with a data_path")
    _require_plain_name(path, client)
    _require_plain_name(path, name)
    return path.parent / client / name


def _require_plain_name(path: Path, name: str) -> None:
    # Names come from a file that someone else may have written; they must not lead out of it.
    if Path(name).name != name or name in {".", ".."}:
        raise DataError(f"{path}: {name!r} is not a plain file or folder name")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: not found") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 text") from None


def training_split(folder: Path, scenario: str | None = None) -> Path:
    """The train folder of a challenge folder or a scenario, or the split folder itself."""
    if not folder.is_dir():
        raise DataError(f"{folder}: not found, or not a folder")
    if is_split(folder):
        return folder
    if (folder / SCENARIOS_FILE).is_file():
        folder = folder / _choose(folder, scenario)
    if not is_split(folder / "train"):
        raise DataError(
            f"{folder}: not a challenge folder ({SCENARIOS_FILE}), a scenario (train/) "
            f"or a split ({PARTITIONS_FILE} or {LEAD}/)"
        )
    return folder / "train"


def scoring_splits(folder: Path, scenario: str | None = None) -> tuple[Path, Path]:
    """The train and test folder of a challenge folder or a scenario."""
    train = training_split(folder, scenario)
    if train == folder:
        raise DataError(f"{folder}: is one split; name the folder that holds train and test")
    test = train.parent / "test"
    if not is_split(test):
        mark = f"{LEAD}/" if is_table_split(train) else PARTITIONS_FILE
        raise DataError(f"{train.parent}: has no test split (test/{mark}) to score")
    return train, test


def account_split(folder: Path, scenario: str | None = None) -> Path:
    """Where the banks' present account files are: the test split if there is one."""
    train = training_split(folder, scenario)
    test = train.parent / "test"
    return test if train != folder and is_split(test) else train


def _choose(folder: Path, scenario: str | None) -> str:
    names = read_scenarios(folder)
    if scenario is None and len(names) == 1:
        return names[0]
    if scenario not in names:
        problem = "has several scenarios" if scenario is None else f"has no scenario {scenario!r}"
        raise ParameterError(f"{folder} {problem}: give --scenario, one of {', '.join(names)}")
    return scenario
