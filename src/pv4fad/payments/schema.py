"""The two tables of the challenge format: columns in order, their types in memory, flag codes.

A loaded table has exactly these columns in this order and these polars types.  Identifiers are
canonical (`hashing.identity`).  Text that repeats a great deal is Categorical: at five million rows
that is the difference between one and three gigabytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from pv4fad.rules import Condition, Rule
from pv4fad.schema import RecordSchema, RowsSchema, Schema, SideSchema

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


class Kind(StrEnum):
    """What the values of a column are; says how they are read and checked."""

    IDENTIFIER = "text"
    REPEATED_TEXT = "text (repeated)"
    ACCOUNT = "account id"
    BIC = "BIC"
    TIMESTAMP = "date and time (YYYY-MM-DD hh:mm:ss)"
    SETTLEMENT_DATE = "date (YYMMDD)"
    CURRENCY = "three-letter currency code"
    AMOUNT = "amount"
    LABEL = "label (0 or 1)"
    FLAG = "flag code"


_DTYPES: dict[Kind, pl.DataType] = {
    Kind.IDENTIFIER: pl.String(),
    Kind.REPEATED_TEXT: pl.Categorical(),
    Kind.ACCOUNT: pl.String(),
    Kind.BIC: pl.Categorical(),
    Kind.TIMESTAMP: pl.Datetime("us"),
    Kind.SETTLEMENT_DATE: pl.Date(),
    Kind.CURRENCY: pl.Categorical(),
    Kind.AMOUNT: pl.Float64(),
    Kind.LABEL: pl.Int8(),
    Kind.FLAG: pl.Enum(FLAG_CODES),
}


@dataclass(frozen=True)
class Column:
    """One column of a table; a nullable one may be blank, which is information, not an error."""

    name: str
    kind: Kind
    nullable: bool = False

    @property
    def dtype(self) -> pl.DataType:
        return _DTYPES[self.kind]


LABEL = "Label"

TRANSACTION_COLUMNS: tuple[Column, ...] = (
    Column("MessageId", Kind.IDENTIFIER),
    Column("Timestamp", Kind.TIMESTAMP),
    Column("UETR", Kind.IDENTIFIER),
    Column("Sender", Kind.BIC),
    Column("Receiver", Kind.BIC),
    Column("TransactionReference", Kind.IDENTIFIER, nullable=True),
    Column("OrderingAccount", Kind.ACCOUNT),
    Column("OrderingName", Kind.REPEATED_TEXT, nullable=True),
    Column("OrderingStreet", Kind.REPEATED_TEXT, nullable=True),
    Column("OrderingCountryCityZip", Kind.REPEATED_TEXT, nullable=True),
    Column("BeneficiaryAccount", Kind.ACCOUNT),
    Column("BeneficiaryName", Kind.REPEATED_TEXT, nullable=True),
    Column("BeneficiaryStreet", Kind.REPEATED_TEXT, nullable=True),
    Column("BeneficiaryCountryCityZip", Kind.REPEATED_TEXT, nullable=True),
    Column("SettlementDate", Kind.SETTLEMENT_DATE),
    Column("SettlementCurrency", Kind.CURRENCY),
    Column("SettlementAmount", Kind.AMOUNT),
    Column("InstructedCurrency", Kind.CURRENCY),
    Column("InstructedAmount", Kind.AMOUNT),
    Column(LABEL, Kind.LABEL),
)

ACCOUNT_COLUMNS: tuple[Column, ...] = (
    Column("Bank", Kind.BIC),
    Column("Account", Kind.ACCOUNT),
    Column("Name", Kind.REPEATED_TEXT, nullable=True),
    Column("Street", Kind.REPEATED_TEXT, nullable=True),
    Column("CountryCityZip", Kind.REPEATED_TEXT, nullable=True),
    Column("Flags", Kind.FLAG),
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

_CLASS_OF = {code: meaning for code, meaning in FLAG_MEANINGS.items()} | {NO_FLAG: "ordinary"}

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
            Rule(class_=name, all=(Condition(column="Flags", is_=code),))
            for code, name in _CLASS_OF.items()
        ),
    ),
)
"""Payments: the ordering account is kept by the Sender of the first leg of the payment (UETR), the
beneficiary's by the Receiver of the last leg.  All legs among the given rows count: what is known
when the holders are looked up."""

TRANSACTION_SCHEMA = pl.Schema({column.name: column.dtype for column in TRANSACTION_COLUMNS})
ACCOUNT_SCHEMA = pl.Schema({column.name: column.dtype for column in ACCOUNT_COLUMNS})
