"""Claims about bad and hostile XML: each gets one clear error, and costs little before that."""

import gzip
from pathlib import Path

import pytest
from tests.kit.iso_messages import (
    AMOUNT,
    DATE,
    HEADER,
    MESSAGE,
    PAYMENT_ID,
    TRANSACTION,
    foreign_message,
    row,
)

from pv4fad.errors import DataError
from pv4fad.payments.iso20022 import records
from pv4fad.payments.loading import load_transactions

NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pacs.008.001.08"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha"}">' for n in range(10))
TWO = MESSAGE.replace("<NbOfTxs>1", "<NbOfTxs>2")

# What is in the file, and what the error says after its name.
REFUSED = {
    "billion laughs": (
        f"<!DOCTYPE d [{LAUGHS}]>" + MESSAGE.replace("E-1", "&l9;"),
        "has a document type declaration (DOCTYPE), which is not accepted",
    ),
    "an external entity": (
        '<!DOCTYPE d [<!ENTITY x SYSTEM "SECRET">]>' + MESSAGE.replace("E-1", "&x;"),
        "has a document type declaration (DOCTYPE), which is not accepted",
    ),
    "an external DTD": (
        '<!DOCTYPE d SYSTEM "http://localhost:1/d.dtd">' + MESSAGE,
        "has a document type declaration (DOCTYPE), which is not accepted",
    ),
    "an undeclared entity": (
        MESSAGE.replace("E-1", "&x;"),
        "not well-formed XML (undefined entity in line 1)",
    ),
    "deep nesting outside": (
        "<a>" * 100_000,
        "elements are nested more than 64 deep",
    ),
    "deep nesting inside": (
        MESSAGE.replace(PAYMENT_ID, "<a>" * 100_000),
        "elements are nested more than 64 deep",
    ),
    "a huge text": (
        MESSAGE.replace("E-1", "E" * 100_000),
        "element FIToFICstmrCdtTrf/CdtTrfTxInf/PmtId/EndToEndId: a text longer than 10,000"
        " characters",
    ),
    "a huge address": (
        MESSAGE.replace(
            "<Nm>A</Nm>", "<PstlAdr>" + "<AdrLine>A LINE</AdrLine>" * 10_000 + "</PstlAdr>"
        ),
        "element FIToFICstmrCdtTrf/CdtTrfTxInf/Dbtr/PstlAdr/AdrLine: a text longer than 10,000"
        " characters",
    ),
    "a huge attribute": (
        MESSAGE.replace("EUR", "EUR" * 1_000_000),
        "a tag or comment is longer than 1,048,576 bytes",
    ),
    "a truncated message": (
        MESSAGE[: MESSAGE.index("</PmtId>")],
        "not well-formed XML (the file ends inside of an element: no element found in line 1)",
    ),
    "a missing tag": (
        MESSAGE.replace("</PmtId>", ""),
        "not well-formed XML (mismatched tag in line 1)",
    ),
    "text that is not XML": (
        "MessageId,UETR\n1,2\n",
        "not well-formed XML (syntax error in line 1)",
    ),
    "no bytes": ("", "the file is empty"),
    "another root": (
        "<html><body>not found</body></html>",
        "no pacs.008 message: there is no element Document (the outermost element is html)",
    ),
    "no namespace": (
        MESSAGE.replace(f' xmlns="{NAMESPACE}"', ""),
        f"the namespace of Document is '', not one of ISO 20022 ({NAMESPACE})",
    ),
    "another namespace": (
        MESSAGE.replace(NAMESPACE, "urn:example"),
        f"the namespace of Document is 'urn:example', not one of ISO 20022 ({NAMESPACE})",
    ),
    "another message": (
        MESSAGE.replace("pacs.008", "pacs.009"),
        "a message pacs.009.001.08, where pacs.008 is expected",
    ),
    "an old version": (
        MESSAGE.replace("001.08", "001.02"),
        "a message pacs.008.001.02; versions from 08 on are read, which have the UETR that links"
        " the legs of a payment",
    ),
    "no transaction": (
        MESSAGE.replace(TRANSACTION, "").replace("<NbOfTxs>1", "<NbOfTxs>0"),
        "has no transaction (element CdtTrfTxInf)",
    ),
    "fewer transactions than stated": (
        TWO,
        "message 'M-1': element GrpHdr/NbOfTxs is '2', and the message has 1 CdtTrfTxInf",
    ),
    "a number of transactions that is none": (
        MESSAGE.replace("<NbOfTxs>1", "<NbOfTxs>1.0"),
        "message 'M-1': element GrpHdr/NbOfTxs is '1.0', and the message has 1 CdtTrfTxInf",
    ),
    "an element twice": (
        MESSAGE.replace(AMOUNT, AMOUNT * 2),
        "transaction 1: element FIToFICstmrCdtTrf/CdtTrfTxInf/IntrBkSttlmAmt occurs more than once",
    ),
    "no creation date": (
        MESSAGE.replace("<CreDtTm>2026-01-15T10:30:00</CreDtTm>", ""),
        "element GrpHdr/CreDtTm (column Timestamp): 1 row has no value; first: transaction 1 of"
        " FILE (MessageId M-1)",
    ),
    "no UETR": (
        MESSAGE.replace("<UETR>u-1</UETR>", ""),
        "element PmtId/UETR (column UETR): 1 row has no value; first: transaction 1 of FILE"
        " (MessageId M-1)",
    ),
    "no id": (
        MESSAGE.replace("<MsgId>M-1</MsgId>", ""),
        "element GrpHdr/MsgId or PmtId/InstrId (column MessageId): 1 row has no value; first:"
        " transaction 1 of FILE",
    ),
    "an amount that is none": (
        MESSAGE.replace(AMOUNT, AMOUNT.replace("10.5", "ten") + '<InstdAmt Ccy="EUR">1</InstdAmt>'),
        "element IntrBkSttlmAmt (column SettlementAmount): 1 row has no number; first:"
        " transaction 1 of FILE (MessageId M-1)",
    ),
    "a date that is none": (
        MESSAGE.replace(DATE, "<IntrBkSttlmDt>2026-13-16</IntrBkSttlmDt>"),
        "element IntrBkSttlmDt (column SettlementDate): 1 row has an unparsable date (expected"
        " YYMMDD or YYYY-MM-DD); first: transaction 1 of FILE (MessageId M-1)",
    ),
    "a time that is none": (
        MESSAGE.replace("T10:30:00", "T25:30:00"),
        "element GrpHdr/CreDtTm (column Timestamp): 1 row has an unparsable date (expected"
        " YYYY-MM-DD hh:mm:ss); first: transaction 1 of FILE (MessageId M-1)",
    ),
    "an offset from UTC that is none": (
        MESSAGE.replace("T10:30:00", "T10:30:00+15:00"),
        "element GrpHdr/CreDtTm (column Timestamp): 1 row has an unparsable date (expected"
        " YYYY-MM-DD hh:mm:ss); first: transaction 1 of FILE (MessageId M-1)",
    ),
    "an agent without a BIC": (
        MESSAGE.replace("BANKDEFF", "BANK 1"),
        "element InstgAgt or DbtrAgt, BICFI (column Sender): 1 row has an invalid BIC; first:"
        " transaction 1 of FILE (MessageId M-1)",
    ),
    "an id twice": (
        f"<all>{MESSAGE}{MESSAGE}</all>",
        "element GrpHdr/MsgId or PmtId/InstrId (column MessageId): 1 row has a duplicate"
        " MessageId; first: transaction 2 of FILE (MessageId M-1)",
    ),
}  # fmt: skip


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as refused:
        load_transactions(path, labels_required=False)
    return str(refused.value)


@pytest.mark.parametrize("name", REFUSED)
def test_bad_and_hostile_xml_gets_one_clear_error(tmp_path, name):
    text, says = REFUSED[name]
    path, secret = tmp_path / "m.xml", tmp_path / "secret"
    secret.write_text("hidden")
    path.write_text(text.replace("SECRET", secret.as_uri()))
    lines = refusal(path).splitlines()
    assert lines == [f"{path}: {says.replace('FILE', str(path))}"]


def test_the_same_text_without_its_fault_is_read(tmp_path):
    # Or else the table above would show nothing.
    path = tmp_path / "m.xml"
    path.write_text('<?xml version="1.0"?><!-- a comment -->' + MESSAGE)
    assert load_transactions(path, labels_required=False).frame.height == 1
    assert HEADER in MESSAGE


@pytest.mark.parametrize("encoding", ["klingon", "hex", "shift_jis", "utf-7", "idna", "punycode"])
def test_an_encoding_that_cannot_be_read_is_refused(tmp_path, encoding):
    path = tmp_path / "m.xml"
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?>{MESSAGE}')
    says = "the encoding that it declares cannot be read; save it as UTF-8"
    assert refusal(path) == f"{path}: {says}"


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1", "windows-1252"])
def test_other_encodings_are_read(tmp_path, encoding):
    path = tmp_path / "m.xml"
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + MESSAGE.replace("E-1", "É-1")
    path.write_bytes(text.encode(encoding))
    table = load_transactions(path, labels_required=False)
    assert table.frame["TransactionReference"].to_list() == ["É-1"]


def test_a_compressed_file_that_expands_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb.xml.gz"
    path.write_bytes(gzip.compress(MESSAGE.encode() + b" " * (64 << 20)))
    assert refusal(path).startswith(f"{path}: expands to more than {records.MAX_GROWTH} times")


@pytest.mark.parametrize("damage", ["truncated", "changed", "not compressed"])
def test_a_damaged_compressed_file_is_refused(tmp_path, damage):
    whole = gzip.compress(MESSAGE.encode())
    path = tmp_path / "m.xml.gz"
    path.write_bytes(
        {
            "truncated": whole[:-20],
            "changed": whole[:-5] + b"\0" + whole[-4:],
            "not compressed": MESSAGE.encode(),
        }[damage]
    )
    assert refusal(path).startswith(f"{path}: not a readable gzip file")


def test_bad_rows_can_be_dropped_and_are_counted_but_a_bad_file_is_refused(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text(f"<all>{MESSAGE}{MESSAGE.replace('M-1', 'M-2').replace('10.5', '-3')}</all>")
    table = load_transactions(path, labels_required=False, on_bad_rows="drop")
    assert table.frame["MessageId"].to_list() == ["M-1"]
    assert f"{path}: 1 of 2 rows dropped" in table.report.notes()
    path.write_text(MESSAGE[:-10])
    with pytest.raises(DataError, match="not well-formed"):
        load_transactions(path, labels_required=False, on_bad_rows="drop")


def test_every_bad_file_of_a_folder_is_named(tmp_path):
    for number, text in enumerate([MESSAGE, MESSAGE[:-1], "<a/>"]):
        (tmp_path / f"{number}.xml").write_text(text)
    lines = refusal(tmp_path).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{tmp_path}/1.xml", f"{tmp_path}/2.xml"]


def test_an_empty_folder_and_a_missing_file_are_refused(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: the folder has no .xml or .xml.gz file"
    missing = tmp_path / "m.xml"
    assert refusal(missing) == f"{missing}: not found"


@pytest.mark.parametrize("kind", ["pacs.009.001.10", "pacs.008.001.07"])
def test_messages_of_other_kinds_and_old_versions_made_by_another_package_are_refused(
    tmp_path, kind
):
    path = tmp_path / "m.xml"
    path.write_text(foreign_message(kind, [row(0, 1)]))
    assert kind in refusal(path)
