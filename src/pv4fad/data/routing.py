"""Which bank keeps the account on each side of a transaction.

    ordering account     Sender of the first leg of the payment (UETR)
    beneficiary account  Receiver of the last leg

A transaction is routed by what is known at its own time: the legs of its payment with a Timestamp
not later than its own.  So an incomplete payment is routed by its latest leg so far, an early leg
keeps its routing when the rest of the payment arrives, and no row is told about the future.
Legs with the same Timestamp are known together and ordered by MessageId.
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
    row, payment, time = pl.col("row"), pl.col("UETR"), pl.col("Timestamp")
    is_first_leg = payment != payment.shift(1)
    is_last_known_leg = (payment != payment.shift(-1)) | (time != time.shift(-1))
    banks = (
        transactions.lazy()
        .select("UETR", "Timestamp", "MessageId", "Sender", "Receiver")
        .with_row_index("row")
        .sort("UETR", "Timestamp", "MessageId")
        .select(
            row,
            pl.when(is_first_leg.fill_null(value=True))
            .then("Sender")
            .forward_fill()
            .alias(ORDERING_BANK),
            pl.when(is_last_known_leg.fill_null(value=True))
            .then("Receiver")
            .backward_fill()
            .alias(BENEFICIARY_BANK),
        )
        .sort("row")
        .select(ORDERING_BANK, BENEFICIARY_BANK)
        .collect()
    )
    return transactions.hstack(banks)
