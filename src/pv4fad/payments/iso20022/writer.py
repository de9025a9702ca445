"""Transactions as pacs.008.001.08 messages, one message for each transaction.

So does the practice between banks (one transaction per message), and so every transaction has the
time, the agents and the id of its own message.  A file holds one message, or several inside an
element `Messages`.  Every column but Label comes back from the reader as it was, see
docs/use/iso20022.md; labels belong in a file of their own.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO

import polars as pl

from pv4fad.errors import DataError
from pv4fad.files import whole_file
from pv4fad.payments.iso20022.iban import is_iban
from pv4fad.payments.schema import SCHEMA
from pv4fad.tables.sides import Sides

NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pacs.008.001.08"
NOT_PROVIDED = "NOTPROVIDED"

_DEBTOR_AGENT, _CREDITOR_AGENT = "OrderingBank", "BeneficiaryBank"
_ROWS_AT_ONCE = 10_000
_UETR_PATTERN = "^[a-f0-9]{8}-[a-f0-9]{4}-4[a-f0-9]{3}-[89ab][a-f0-9]{3}-[a-f0-9]{12}$"
_NO_XML_CHARACTER = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_LONGEST = {
    "MessageId": 35, "TransactionReference": 35, "UETR": 36,
    "OrderingAccount": 34, "OrderingName": 140, "OrderingStreet": 70, "OrderingCountryCityZip": 35,
    "BeneficiaryAccount": 34, "BeneficiaryName": 140, "BeneficiaryStreet": 70,
    "BeneficiaryCountryCityZip": 35,
}  # fmt: skip


def write_messages(
    path: Path, transactions: pl.DataFrame, after_rows: Callable[[int], object] = lambda _: None
) -> list[str]:
    """Write TRANSACTION_SCHEMA to one file, compressed if its name ends in .gz.

    Returns a line for everything that the file does not hold as it was.
    """
    _require_writable(transactions)
    _write_file(path, _with_agents(transactions), after_rows)
    return _notes(transactions)


def write_folder(
    folder: Path,
    transactions: pl.DataFrame,
    *,
    per_file: int,
    compress: bool,
    after_rows: Callable[[int], object] = lambda _: None,
) -> list[str]:
    """As `write_messages`, to files of so many transactions in a new folder."""
    _require_writable(transactions)
    folder.mkdir()
    ending = ".xml.gz" if compress else ".xml"
    routed = _with_agents(transactions)
    for number, first in enumerate(range(0, routed.height, per_file), start=1):
        part = routed.slice(first, per_file)
        _write_file(folder / f"{number:06d}{ending}", part, after_rows)
    return _notes(transactions)


def _with_agents(transactions: pl.DataFrame) -> pl.DataFrame:
    """Debtor and creditor have their agents where their accounts are."""
    ordering, beneficiary = Sides(SCHEMA, transactions).side_keys()
    agents = {_DEBTOR_AGENT: ordering["Holder"], _CREDITOR_AGENT: beneficiary["Holder"]}
    return transactions.with_columns(**agents)


def _write_file(path: Path, routed: pl.DataFrame, after_rows: Callable[[int], object]) -> None:
    """`routed`: debtor and creditor have their agents where their accounts are."""
    several = routed.height > 1
    with whole_file(path) as file, _compressed(path, file) as target:
        target.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
        target.write(b"<Messages>\n" * several)
        for part in routed.iter_slices(_ROWS_AT_ONCE):
            ibans = [
                is_iban(part[name]).alias(_is_iban_name(name))
                for name in ("OrderingAccount", "BeneficiaryAccount")
            ]
            messages = part.with_columns(ibans).select(_message()).to_series()
            target.write(messages.str.join("\n").item().encode() + b"\n")
            after_rows(part.height)
        target.write(b"</Messages>\n" * several)


def _compressed(path: Path, file: IO[bytes]) -> gzip.GzipFile | nullcontext[IO[bytes]]:
    if path.suffix.lower() != ".gz":
        return nullcontext(file)
    # Neither name nor time inside, so that equal data gives equal files.
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


def _require_writable(transactions: pl.DataFrame) -> None:
    for name, dtype in transactions.schema.items():
        if dtype in (pl.String, pl.Categorical):
            texts = transactions[name].unique().cast(pl.String)
            if texts.str.contains(_NO_XML_CHARACTER).any():
                raise DataError(f"column {name}: a control character, which XML cannot hold")


def _notes(transactions: pl.DataFrame) -> list[str]:
    notes = []
    for name in ("SettlementAmount", "InstructedAmount"):
        written = transactions.select(_amount(name).cast(pl.Float64)).to_series()
        if n := int((written != transactions[name]).sum()):
            notes.append(f"column {name}: {n:,} amounts rounded to 5 decimal places")
    for name, longest in _LONGEST.items():
        lengths = transactions[name].cast(pl.String).str.len_chars()
        if n := int((lengths > longest).sum()):
            notes.append(
                f"column {name}: {n:,} texts are longer than the {longest} characters that"
                " pacs.008 allows, and were written in full"
            )
    return notes


def _message() -> pl.Expr:
    moment = pl.col("Timestamp")
    seconds = moment.dt.to_string("%Y-%m-%dT%H:%M:%S")
    exact = moment.dt.to_string("%Y-%m-%dT%H:%M:%S%.6f")
    reference = _text("TransactionReference").fill_null(NOT_PROVIDED)
    uetr = _text("UETR")
    is_uetr = uetr.str.contains(_UETR_PATTERN)
    return pl.concat_str(
        pl.lit(f'<Document xmlns="{NAMESPACE}"><FIToFICstmrCdtTrf><GrpHdr>'),
        _element("MsgId", _text("MessageId")),
        _element("CreDtTm", pl.when(moment.dt.microsecond() == 0).then(seconds).otherwise(exact)),
        pl.lit("<NbOfTxs>1</NbOfTxs><SttlmInf><SttlmMtd>INDA</SttlmMtd></SttlmInf></GrpHdr>"),
        pl.lit("<CdtTrfTxInf><PmtId>"),
        _element("InstrId", _text("MessageId")),
        _element("EndToEndId", reference),
        _element("TxId", pl.when(~is_uetr).then(uetr)),
        _element("UETR", pl.when(is_uetr).then(uetr)),
        pl.lit("</PmtId>"),
        _money("IntrBkSttlmAmt", "Settlement"),
        _element("IntrBkSttlmDt", pl.col("SettlementDate").dt.to_string("%Y-%m-%d")),
        _money("InstdAmt", "Instructed"),
        pl.lit("<ChrgBr>SHAR</ChrgBr>"),
        _agent("InstgAgt", "Sender"),
        _agent("InstdAgt", "Receiver"),
        _party("Dbtr", "Ordering"),
        _account("DbtrAcct", "OrderingAccount"),
        _agent("DbtrAgt", _DEBTOR_AGENT),
        _agent("CdtrAgt", _CREDITOR_AGENT),
        _party("Cdtr", "Beneficiary"),
        _account("CdtrAcct", "BeneficiaryAccount"),
        pl.lit("</CdtTrfTxInf></FIToFICstmrCdtTrf></Document>"),
    )


def _text(column: str) -> pl.Expr:
    return _escaped(pl.col(column).cast(pl.String))


def _escaped(text: pl.Expr) -> pl.Expr:
    return text.str.replace_many(list(_ESCAPES), list(_ESCAPES.values()))


def _element(tag: str, content: pl.Expr) -> pl.Expr:
    """The element; nothing where the content is null."""
    return pl.format(f"<{tag}>{{}}</{tag}>", content).fill_null("")


def _money(tag: str, side: str) -> pl.Expr:
    return pl.format(
        f'<{tag} Ccy="{{}}">{{}}</{tag}>', _text(f"{side}Currency"), _amount(f"{side}Amount")
    )


def _amount(column: str) -> pl.Expr:
    """Digits, without an exponent; the shortest that give the same number, if pacs.008 has them."""
    amount = pl.col(column)
    shortest = amount.cast(pl.String)
    return (
        pl.when(shortest.str.contains(r"^\d+(\.\d{1,5})?$"))
        .then(shortest)
        .when(amount == amount.floor())
        .then(amount.cast(pl.Int64).cast(pl.String))
        .otherwise(amount.cast(pl.Decimal(38, 5)).cast(pl.String))
    )


def _agent(tag: str, column: str) -> pl.Expr:
    inside = _element("FinInstnId", _element("BICFI", _text(column)))
    return _element(tag, inside)


def _account(tag: str, column: str) -> pl.Expr:
    iban = _element("IBAN", _text(column))
    other = _element("Othr", _element("Id", _text(column)))
    inside = pl.when(_is_iban_name(column)).then(iban).otherwise(other)
    return _element(tag, _element("Id", inside))


def _is_iban_name(column: str) -> str:
    return f"{column} (IBAN)"


def _party(tag: str, side: str) -> pl.Expr:
    place = pl.col(f"{side}CountryCityZip").cast(pl.String)
    # What is read back is, in this order: country / post code, town; the United States write
    # country / town, state post code.  What has another form is the town, all of it.
    european = place.str.extract_groups(r"^([A-Z]{2})/([0-9]\S*) (\S.*)$")
    american = place.str.extract_groups(r"^(US)/(\S|\S.*\S), ([A-Z]{2}) (\S+)$")
    plain = place.str.extract_groups(r"^([A-Z]{2})/(\S.*)$")
    is_american = american.struct.field("1").is_not_null()
    is_european = european.struct.field("1").is_not_null() & (european.struct.field("1") != "US")
    is_plain = plain.struct.field("1").is_not_null() & ~is_american & ~is_european
    code = (
        pl.when(is_american)
        .then(american.struct.field("4"))
        .when(is_european)
        .then(european.struct.field("2"))
    )
    town = (
        pl.when(is_american)
        .then(american.struct.field("2"))
        .when(is_european)
        .then(european.struct.field("3"))
        .when(is_plain)
        .then(plain.struct.field("2"))
        .otherwise(place)
    )
    address = pl.concat_str(
        _element("StrtNm", _text(f"{side}Street")),
        _element("PstCd", _escaped(code)),
        _element("TwnNm", _escaped(town)),
        _element("CtrySubDvsn", pl.when(is_american).then(american.struct.field("3"))),
        _element("Ctry", plain.struct.field("1")),
    )
    inside = pl.concat_str(
        _element("Nm", _text(f"{side}Name")),
        _element("PstlAdr", pl.when(address != "").then(address)),
    )
    return _element(tag, inside)
