"""The two tables of the challenge format: columns in order, their types in memory, flag codes.

A loaded table has exactly these columns in this order and these polars types.  Identifiers are
canonical (`pv4fad.payments.identity`).  Text that repeats a great deal is Categorical: at five
million rows that is the difference between one and three gigabytes.
"""

from __future__ import annotations

import polars as pl

from pv4fad.payments.kinds import ACCOUNT, BIC, CURRENCY, SETTLEMENT_DATE
from pv4fad.rules import Rule
from pv4fad.schema import RecordSchema, RowsSchema, Schema, SideSchema
from pv4fad.tables import columns
from pv4fad.tables.columns import AMOUNT, REPEATED_TEXT, TEXT, TIMESTAMP, Column, choice
from pv4fad.words import Words

FLAG_MEANINGS: dict[str, str] = {
    "00": "none",
    "01": "closed",
    "03": "recently opened",
    "04": "name mismatch",
    "05": "under monitoring",
    "06": "suspended",
    "07": "frozen",
    "08": "non-transaction account",
    "09": "beneficiary deceased",
    "10": "invalid company ID",
    "11": "invalid individual ID",
}
FLAG_CODES: tuple[str, ...] = tuple(FLAG_MEANINGS)

NO_FLAG = "00"
MILD_FLAGS = ("03", "04", "05")  # recently opened, name mismatch, under monitoring


LABEL = "Label"

TRANSACTION_COLUMNS: tuple[Column, ...] = (
    Column("MessageId", TEXT),
    Column("Timestamp", TIMESTAMP),
    Column("UETR", TEXT),
    Column("Sender", BIC),
    Column("Receiver", BIC),
    Column("TransactionReference", TEXT, nullable=True),
    Column("OrderingAccount", ACCOUNT),
    Column("OrderingName", REPEATED_TEXT, nullable=True),
    Column("OrderingStreet", REPEATED_TEXT, nullable=True),
    Column("OrderingCountryCityZip", REPEATED_TEXT, nullable=True),
    Column("BeneficiaryAccount", ACCOUNT),
    Column("BeneficiaryName", REPEATED_TEXT, nullable=True),
    Column("BeneficiaryStreet", REPEATED_TEXT, nullable=True),
    Column("BeneficiaryCountryCityZip", REPEATED_TEXT, nullable=True),
    Column("SettlementDate", SETTLEMENT_DATE),
    Column("SettlementCurrency", CURRENCY),
    Column("SettlementAmount", AMOUNT),
    Column("InstructedCurrency", CURRENCY),
    Column("InstructedAmount", AMOUNT),
    Column(LABEL, columns.LABEL),
)

ACCOUNT_COLUMNS: tuple[Column, ...] = (
    Column("Bank", BIC),
    Column("Account", ACCOUNT),
    Column("Name", REPEATED_TEXT, nullable=True),
    Column("Street", REPEATED_TEXT, nullable=True),
    Column("CountryCityZip", REPEATED_TEXT, nullable=True),
    Column("Flags", choice("flag", FLAG_CODES, width=2)),
)

ORDERING, BENEFICIARY = range(2)
"""The sides of a payment, as columns of arrays."""

PAPER_FEATURES = (
    "settlement_delay_days",
    "sender_delay_share",
    "currency_mismatch",
    "log_amount",
    "log_amount_ratio",
    "amount_z",
    "hour",
    "sender_hour_share",
    "sender_currency_share",
    "sender_exchange_share",
    "corridor_share",
)
"""What the paper's trees may test: what a message says about itself and its sender's habits."""
PAPER_CONDITIONS = (2, 8)
"""How often the paper's trees list the condition of each side."""

_CLASS_OF = FLAG_MEANINGS | {NO_FLAG: "ordinary"}

SCHEMA = Schema(
    name="payments",
    format="payments",
    rows=RowsSchema(
        id="MessageId",
        time="Timestamp",
        label=LABEL,
        event="UETR",
        features="pv4fad.payments.features:compute_features",
    ),
    sides={
        "ordering": SideSchema(id="OrderingAccount", holder="Sender", leg="first"),
        "beneficiary": SideSchema(id="BeneficiaryAccount", holder="Receiver", leg="last"),
    },
    record=RecordSchema(
        id="Account",
        holder="Bank",
        classes=tuple(_CLASS_OF.values()),
        kinds={
            "mild": tuple(_CLASS_OF[code] for code in MILD_FLAGS),
            "severe": tuple(
                name for code, name in _CLASS_OF.items() if code not in (NO_FLAG, *MILD_FLAGS)
            ),
        },
        rules=tuple(
            Rule.model_validate({"class": name, "column": "Flags", "is": code})
            for code, name in _CLASS_OF.items()
        ),
    ),
    words=Words(lead="payment network", holder="bank", row="payment", record="account"),
)
"""Payments: the ordering account is kept by the Sender of the first leg of the payment (UETR), the
beneficiary's by the Receiver of the last leg.  All legs among the given rows count: what is known
when the holders are looked up."""

TRANSACTION_SCHEMA = pl.Schema({column.name: column.dtype for column in TRANSACTION_COLUMNS})
ACCOUNT_SCHEMA = pl.Schema({column.name: column.dtype for column in ACCOUNT_COLUMNS})
