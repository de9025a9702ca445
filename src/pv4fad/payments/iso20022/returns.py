"""Labels made of what banks sent back: rejections (pacs.002) and recalls (camt.056).

A rejected or recalled payment is not anomalous for that: an account number may be mistyped, a
payment may be sent twice.  These labels are a beginning for someone who has none, not the truth.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pv4fad.payments.iso20022.layout import Layout
from pv4fad.payments.iso20022.messages import message_files
from pv4fad.payments.iso20022.records import Record, read_records
from pv4fad.payments.schema import LABEL

_ORIGINAL = ("OrgnlUETR", "OrgnlTxId", "OrgnlInstrId")
_REJECTED = "RJCT"

STATUS = Layout(
    kind="pacs.002",
    body="FIToFIPmtStsRpt",
    record="TxInfAndSts",
    header=("GrpHdr/MsgId", "OrgnlGrpInfAndSts/GrpSts"),
    fields=(*_ORIGINAL, "TxSts"),
    needs_record=True,
)
RECALL = Layout(
    kind="camt.056",
    body="FIToFIPmtCxlReq",
    record="Undrlyg/TxInf",
    header=("Assgnmt/Id",),
    fields=_ORIGINAL,
    needs_record=True,
)


@dataclass(frozen=True)
class ReturnLabels:
    """A label for each transaction, and where the ones come from."""

    frame: pl.DataFrame  # MessageId, Label
    counts: Counter[str]  # rejected, recalled, unknown, other statuses


def labels_from_returns(transactions: pl.DataFrame, returns: Path) -> ReturnLabels:
    """1 for every leg of a payment that was rejected or recalled, 0 for all others.

    `returns`: a file or a folder of pacs.002 and camt.056.  A payment is found by its UETR, or by
    the TxId that stands in for it, or else by the MessageId of one transaction.  A message that
    names no transaction is refused: which ones its group has is not known here.
    """
    counts: Counter[str] = Counter()
    payments, messages = set(transactions["UETR"]), set(transactions["MessageId"])
    found: dict[str, set[str]] = {"UETR": set(), "MessageId": set()}
    for file in message_files(returns):
        for kind, records in read_records(file, [STATUS, RECALL], set()):
            for record in records:
                if kind == STATUS.kind and not _is_rejection(record):
                    counts["other statuses"] += 1
                    continue
                ids = record[:-1] if kind == STATUS.kind else record
                uetr, transaction, instruction = ((one or "").strip() for one in ids[-3:])
                payment = uetr if uetr in payments else transaction
                if payment in payments:
                    found["UETR"].add(payment)
                elif instruction in messages:
                    found["MessageId"].add(instruction)
                else:
                    counts["unknown"] += 1
                    continue
                counts["rejected" if kind == STATUS.kind else "recalled"] += 1
    is_returned = pl.any_horizontal(
        pl.col(name).is_in(pl.Series(sorted(ids), dtype=pl.String)) for name, ids in found.items()
    )
    labels = transactions.select("MessageId", is_returned.cast(pl.Int8).alias(LABEL))
    return ReturnLabels(labels, counts)


def _is_rejection(record: Record) -> bool:
    of_transaction, of_group = record[-1], record[1]
    return (of_transaction or of_group or "").strip() == _REJECTED
