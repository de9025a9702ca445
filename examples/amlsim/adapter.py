"""AMLSim's accounts and transactions as the tables of a lead and of banks.

    python examples/amlsim/adapter.py ../shared/data/amlsim_20k_cycle200 amlsim

Reads `nodes.csv.gz` and `transactions.csv.gz` (or `.csv`), writes

    amlsim/schema.toml
    amlsim/{train,test}/lead/rows.parquet
    amlsim/{train,test}/bank{1,2,3,4}/records.parquet

A step of the simulation is a day.  Training rows are those of steps 50 to 99, test rows all later
ones; records are as they were when the rows begin.  docs/use/amlsim.md says why.
"""

from __future__ import annotations

import argparse
import hashlib
from datetime import date
from pathlib import Path
from shutil import copyfile

import polars as pl

BANKS = ("bank1", "bank2", "bank3", "bank4")
DAY_ZERO = date(2026, 1, 1)
BEGIN = {"train": 50, "test": 100}  # the first step
END = {"train": 100, "test": None}


def bank_of(account: int) -> str:
    """AMLSim's accounts have no bank, so a hash of the account decides."""
    return BANKS[hashlib.sha256(str(account).encode()).digest()[0] % len(BANKS)]


def read_amlsim(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Accounts and transactions, as they are in the files."""
    return _read(folder, "nodes"), _read(folder, "transactions")


def _read(folder: Path, name: str) -> pl.DataFrame:
    return pl.read_csv(next(folder.glob(f"{name}.csv*"), folder / f"{name}.csv"))


def rows(
    accounts: pl.DataFrame, transactions: pl.DataFrame, split: str, begin: int | None = None
) -> pl.DataFrame:
    """The payments of one period, or from another first step.

    A payment is laundering if an account of a cycle makes it to another such account at the step
    at which AMLSim says that the account takes part.
    """
    fraud = accounts.filter(pl.col("isFraud") == 1)
    step_of = fraud.select(sourceNodeId="nodeid", step="fraudStep")
    bank = {account: bank_of(account) for account in accounts["nodeid"]}
    laundering = (pl.col("step") == pl.col("time")) & pl.col("targetNodeId").is_in(
        fraud["nodeid"].implode()
    )
    table = (
        transactions.with_row_index("number")
        .join(step_of, on="sourceNodeId", how="left", maintain_order="left")
        .select(
            PaymentId=pl.format("T{}", "number"),
            Time=_day(pl.col("time")),
            Laundering=laundering.fill_null(value=False).cast(pl.Int8),
            Amount="value",
            SenderBank=pl.col("sourceNodeId").replace_strict(bank, return_dtype=pl.String),
            Sender="sourceNodeId",
            ReceiverBank=pl.col("targetNodeId").replace_strict(bank, return_dtype=pl.String),
            Receiver="targetNodeId",
            step="time",
        )
    )
    end = END[split]
    later = pl.col("step") >= (BEGIN[split] if begin is None else begin)
    return table.filter(later if end is None else later & (pl.col("step") < end)).drop("step")


def records(accounts: pl.DataFrame, split: str) -> dict[str, pl.DataFrame]:
    """What each bank knows of its accounts when the period begins, and nothing later."""
    happened = (pl.col("isFraud") == 1) & pl.col("fraudStep").is_between(
        0, BEGIN[split], closed="left"
    )
    known = accounts.select(
        Account="nodeid",
        Balance="init_balance",
        Reported=pl.when(happened).then(_day(pl.col("fraudStep"))),
        bank=pl.col("nodeid").map_elements(bank_of, return_dtype=pl.String),
    )
    return {name: known.filter(pl.col("bank") == name).drop("bank") for name in BANKS}


def _day(step: pl.Expr) -> pl.Expr:
    return pl.lit(DAY_ZERO) + pl.duration(days=step)


def write(source: Path, target: Path) -> None:
    """All tables, in the layout that `pv4fad train` reads."""
    accounts, transactions = read_amlsim(source)
    for split in BEGIN:
        tables = {"lead/rows": rows(accounts, transactions, split)}
        for bank, table in records(accounts, split).items():
            tables[f"{bank}/records"] = table
        for name, table in tables.items():
            path = target / split / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            table.write_parquet(path)
    copyfile(Path(__file__).with_name("schema.toml"), target / "schema.toml")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="AMLSim's accounts and transactions, as tables.")
    parser.add_argument("source", type=Path, help="folder with nodes.csv and transactions.csv")
    parser.add_argument("target", type=Path, metavar="DIR", help="new folder")
    given = parser.parse_args()
    if not any(given.source.glob("nodes.csv*")):
        parser.error(f"{given.source} holds no nodes.csv or nodes.csv.gz")
    if given.target.exists():
        parser.error(f"{given.target} exists already")
    write(given.source, given.target)
