"""pacs.008 messages (FIToFICstmrCdtTrf) as the text columns of the challenge format.

docs/use/iso20022.md has the table of elements and columns.  Values stay text here, as in a CSV
file: the rules of `payments.parsing` turn them into typed columns and say what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.identity import canonical_account_expr, canonical_bic8_expr
from pv4fad.payments.iso20022.iban import is_iban
from pv4fad.payments.iso20022.layout import Layout, Version
from pv4fad.payments.iso20022.records import Record, read_records
from pv4fad.payments.iso20022.writer import NOT_PROVIDED

FIRST_VERSION = 8  # the first in use between banks that has UETR and BICFI
LAST_VERSION = 13

_BIC = "FinInstnId/BICFI"
_ADDRESS = ("StrtNm", "BldgNb", "PstCd", "TwnNm", "CtrySubDvsn", "Ctry", "AdrLine*")


def _of_party(party: str) -> tuple[str, ...]:
    return (
        f"{party}/Nm",
        *(f"{party}/PstlAdr/{name}" for name in _ADDRESS),
        f"{party}Acct/Id/IBAN",
        f"{party}Acct/Id/Othr/Id",
        f"{party}Agt/{_BIC}",
    )


LAYOUT = Layout(
    kind="pacs.008",
    body="FIToFICstmrCdtTrf",
    record="CdtTrfTxInf",
    header=(
        "GrpHdr/MsgId",
        "GrpHdr/CreDtTm",
        "GrpHdr/NbOfTxs",
        "GrpHdr/IntrBkSttlmDt",
        f"GrpHdr/InstgAgt/{_BIC}",
        f"GrpHdr/InstdAgt/{_BIC}",
    ),
    fields=(
        "PmtId/InstrId",
        "PmtId/EndToEndId",
        "PmtId/TxId",
        "PmtId/UETR",
        "IntrBkSttlmAmt",
        "IntrBkSttlmAmt@Ccy",
        "IntrBkSttlmDt",
        "InstdAmt",
        "InstdAmt@Ccy",
        f"InstgAgt/{_BIC}",
        f"InstdAgt/{_BIC}",
        *_of_party("Dbtr"),
        *_of_party("Cdtr"),
    ),
    n_records="GrpHdr/NbOfTxs",
)

ELEMENTS: Mapping[str, str] = {
    "MessageId": "GrpHdr/MsgId or PmtId/InstrId",
    "Timestamp": "GrpHdr/CreDtTm",
    "UETR": "PmtId/UETR",
    "Sender": "InstgAgt or DbtrAgt, BICFI",
    "Receiver": "InstdAgt or CdtrAgt, BICFI",
    "OrderingAccount": "DbtrAcct/Id",
    "BeneficiaryAccount": "CdtrAcct/Id",
    "SettlementDate": "IntrBkSttlmDt",
    "SettlementCurrency": "IntrBkSttlmAmt, Ccy",
    "SettlementAmount": "IntrBkSttlmAmt",
    "InstructedCurrency": "InstdAmt, Ccy",
    "InstructedAmount": "InstdAmt",
}
"""Where the values that can be wrong come from, for error messages."""

COUNTED = {
    "iban": "accounts given as IBAN fail its check digits or form, and are used as they are",
    "bic": "agents of debtor or creditor have no valid BIC",
    "uetr": "transactions have no UETR; their TxId stands in for it",
    "instructed": "transactions have no InstdAmt; the settlement amount stands in for it",
    "version": f"files have messages of a version after {LAST_VERSION:02d}, which was not tested",
}


def read_columns(
    path: Path, counts: Counter[str], body: bytes | None = None
) -> Iterator[pl.DataFrame]:
    """The text columns of a file's transactions, without Label, in batches; adds to `counts`.

    `body`: what the file would hold, if there is none; `path` is then what errors call it.
    """
    if not (path.stat().st_size if body is None else body):
        raise DataError(f"{path}: the file is empty")
    versions: set[Version] = set()
    n_records = 0
    for _, records in read_records(path, [LAYOUT], versions, body):
        _require_supported(path, versions)
        n_records += len(records)
        yield _columns(records, counts)
    _require_supported(path, versions)
    if not n_records:
        raise DataError(f"{path}: has no transaction (element {LAYOUT.record})")
    counts["version"] += any(version.number > LAST_VERSION for version in versions)


def _require_supported(path: Path, versions: set[Version]) -> None:
    for version in versions:
        if version.number < FIRST_VERSION:
            raise DataError(
                f"{path}: a message {version}; versions from {FIRST_VERSION:02d} on are read,"
                " which have the UETR that links the legs of a payment"
            )


def _columns(records: list[Record], counts: Counter[str]) -> pl.DataFrame:
    names = [*LAYOUT.header, *LAYOUT.fields]
    raw = pl.DataFrame(
        [
            pl.Series(name, values, pl.String)
            for name, values in zip(names, zip(*records, strict=True), strict=True)
        ]
    )
    text = (
        raw.lazy()
        .with_columns(pl.all().str.strip_chars())
        .with_columns(pl.when(pl.all() != "").then(pl.all()))
        .collect()
    )
    _count(text, counts)
    number = pl.col("GrpHdr/NbOfTxs").str.strip_chars_start("0")
    one_per_message = pl.when(number == "1").then("GrpHdr/MsgId")
    reference = pl.col("PmtId/EndToEndId")
    return text.select(
        MessageId=pl.coalesce(one_per_message, "PmtId/InstrId", "PmtId/TxId"),
        Timestamp="GrpHdr/CreDtTm",
        UETR=pl.coalesce("PmtId/UETR", "PmtId/TxId"),
        Sender=pl.coalesce(f"InstgAgt/{_BIC}", f"GrpHdr/InstgAgt/{_BIC}", f"DbtrAgt/{_BIC}"),
        Receiver=pl.coalesce(f"InstdAgt/{_BIC}", f"GrpHdr/InstdAgt/{_BIC}", f"CdtrAgt/{_BIC}"),
        TransactionReference=pl.when(reference != NOT_PROVIDED).then(reference),
        **_party_columns("Ordering", "Dbtr"),
        **_party_columns("Beneficiary", "Cdtr"),
        SettlementDate=pl.coalesce("IntrBkSttlmDt", "GrpHdr/IntrBkSttlmDt"),
        SettlementCurrency="IntrBkSttlmAmt@Ccy",
        SettlementAmount="IntrBkSttlmAmt",
        InstructedCurrency=pl.when(pl.col("InstdAmt").is_not_null())
        .then("InstdAmt@Ccy")
        .otherwise("IntrBkSttlmAmt@Ccy"),
        InstructedAmount=pl.coalesce("InstdAmt", "IntrBkSttlmAmt"),
    )


def _party_columns(side: str, party: str) -> dict[str, pl.Expr]:
    street, number, code, town, state, country, lines = (
        pl.col(f"{party}/PstlAdr/{name}") for name in _ADDRESS
    )
    # Free lines are the street where the place has elements of its own; or else the last line is
    # the place.
    has_place = code.is_not_null() | town.is_not_null()
    last = lines.str.extract(r"([^\n]*)$")
    before = lines.str.extract(r"(?s)^(.*)\n[^\n]*$")
    place_line = pl.when(~has_place & (before.is_not_null() | street.is_not_null())).then(last)
    other_lines = pl.when(place_line.is_null()).then(lines).otherwise(before)
    in_america = country == "US"
    city = (
        pl.when(in_america)
        .then(_joined(", ", town, _joined(" ", state, code)))
        .otherwise(_joined(" ", code, town))
    )
    prefix = pl.concat_str(country, pl.lit("/"))
    line = pl.when(~place_line.str.starts_with(prefix)).then(prefix + place_line)
    place = pl.coalesce(prefix + city, city, line, place_line, prefix)
    return {
        f"{side}Account": pl.coalesce(f"{party}Acct/Id/IBAN", f"{party}Acct/Id/Othr/Id"),
        f"{side}Name": pl.col(f"{party}/Nm"),
        f"{side}Street": _joined(
            ", ", _joined(" ", street, number), other_lines.str.replace_all(r"\s*\n\s*", ", ")
        ),
        f"{side}CountryCityZip": place,
    }


def _joined(separator: str, *parts: pl.Expr) -> pl.Expr:
    """The parts that are not null; null where all are."""
    text = pl.concat_str(parts, separator=separator, ignore_nulls=True)
    return pl.when(text != "").then(text)


def _count(text: pl.DataFrame, counts: Counter[str]) -> None:
    for party in ("Dbtr", "Cdtr"):
        iban = text.select(canonical_account_expr(pl.col(f"{party}Acct/Id/IBAN"))).to_series()
        iban = iban.drop_nulls()
        counts["iban"] += int((~is_iban(iban)).sum())
        bic = pl.col(f"{party}Agt/{_BIC}")
        invalid = canonical_bic8_expr(bic).is_null() & bic.is_not_null()
        counts["bic"] += int(text.select(invalid.sum()).item())
    only_tx_id = pl.col("PmtId/UETR").is_null() & pl.col("PmtId/TxId").is_not_null()
    counts["uetr"] += int(text.select(only_tx_id.sum()).item())
    counts["instructed"] += text["InstdAmt"].null_count()
