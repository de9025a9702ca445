"""The two tables of the challenge format: columns in order, their types in memory, flag codes.

A loaded table has exactly these columns in this order and these polars types.  Identifiers are
canonical (`hashing.identity`).  Text that repeats a great deal is Categorical: at five million rows
that is the difference between one and three gigabytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import polars as pl

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
"""The atoms of the flag family, in order: atom k of an account is `Flags.to_physical() == k`."""

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

TRANSACTION_SCHEMA = pl.Schema({column.name: column.dtype for column in TRANSACTION_COLUMNS})
ACCOUNT_SCHEMA = pl.Schema({column.name: column.dtype for column in ACCOUNT_COLUMNS})
