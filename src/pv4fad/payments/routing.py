"""Which bank keeps the account on each side of a transaction.

    ordering account     Sender of the first leg of the payment (UETR)
    beneficiary account  Receiver of the last leg

All legs among the given rows count: what is known when the routing is done.  A payment that is
still under way then is routed by its latest leg so far; a batch at the end of the day knows more
than a leg that is scored on arrival.  Legs with the same Timestamp are ordered by MessageId.
"""

from __future__ import annotations

import polars as pl

ORDERING_BANK = "OrderingBank"
BENEFICIARY_BANK = "BeneficiaryBank"


def route(transactions: pl.DataFrame) -> pl.DataFrame:
    """The transactions, in the same order, with OrderingBank and BeneficiaryBank added.

    Legs of earlier data (the training rows, for a test row) are known only if they are among the
    rows: route them together.
    """
    payments = (
        transactions.lazy()
        .select("UETR", "Timestamp", "MessageId", "Sender", "Receiver")
        .sort("UETR", "Timestamp", "MessageId")
        .group_by("UETR", maintain_order=True)
        .agg(
            pl.col("Sender").first().alias(ORDERING_BANK),
            pl.col("Receiver").last().alias(BENEFICIARY_BANK),
        )
    )
    banks = (
        transactions.lazy()
        .select("UETR")
        .join(payments, on="UETR", how="left", maintain_order="left")
        .select(ORDERING_BANK, BENEFICIARY_BANK)
        .collect()
    )
    return transactions.hstack(banks)
