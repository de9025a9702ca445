"""Generated data sets that several test files look at, each made once."""

from functools import cache

import polars as pl

from pv4fad.payments.generate import (
    ColumnLeak,
    Difficulty,
    GeneratedTables,
    Settings,
    generate_tables,
    leak_check,
)

N_MESSAGES, N_BANKS = 150_000, 25


@cache
def tables(difficulty: Difficulty) -> GeneratedTables:
    return generate_tables(Settings(N_MESSAGES, N_BANKS, difficulty, seed=11))


@cache
def leaks(difficulty: Difficulty) -> tuple[ColumnLeak, ...]:
    return leak_check(tables(difficulty))


@cache
def all_rows_of(difficulty: Difficulty) -> pl.DataFrame:
    return all_rows(tables(difficulty))


def all_rows(made: GeneratedTables) -> pl.DataFrame:
    """Training and test rows with the bank records of both accounts, by the rule of the format.

    OrderingFlag and BeneficiaryFlag are null where the account is not in its bank's file.
    """
    rows = pl.concat([made.train.transactions, made.test.transactions])
    by_time = pl.col("Timestamp")
    rows = rows.with_columns(
        OrderingBank=pl.col("Sender").sort_by(by_time).first().over("UETR"),
        BeneficiaryBank=pl.col("Receiver").sort_by(by_time).last().over("UETR"),
    )
    records = pl.concat(made.accounts.values()).select("Bank", "Account", "Flags")
    for side in ("Ordering", "Beneficiary"):
        rows = rows.join(
            records.rename(
                {"Bank": f"{side}Bank", "Account": f"{side}Account", "Flags": f"{side}Flag"}
            ),
            on=[f"{side}Bank", f"{side}Account"],
            how="left",
        )
    return rows
