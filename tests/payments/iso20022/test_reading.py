"""Claims about reading pacs.008: messages of another package, versions, fall-backs, memory."""

import gzip
from collections import Counter
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest
from tests.kit.iso_messages import (
    AGENTS,
    AMOUNT,
    HEADER,
    IBANS,
    MESSAGE,
    PAYMENT_ID,
    TRANSACTION,
    foreign_message,
    in_envelope,
    row,
)

from pv4fad.payments.iso20022 import records
from pv4fad.payments.iso20022.iban import is_iban
from pv4fad.payments.iso20022.messages import read_messages
from pv4fad.payments.iso20022.pacs008 import LAYOUT
from pv4fad.payments.iso20022.records import read_records
from pv4fad.payments.loading import TransactionTable, load_transactions
from pv4fad.payments.schema import LABEL, TRANSACTION_SCHEMA

VERSIONS = [f"pacs.008.001.{number:02d}" for number in range(8, 14)]


def load(path: Path, text: str) -> TransactionTable:
    path.write_text(text, encoding="utf-8")
    return load_transactions(path, labels_required=False)


def first(path: Path, text: str) -> dict[str, object]:
    return load(path, text).frame.row(0, named=True)


@pytest.mark.parametrize("kind", VERSIONS)
def test_a_message_of_another_package_is_read_in_every_version(tmp_path, kind):
    table = load(tmp_path / "m.xml", foreign_message(kind, [row(n, 3) for n in range(3)]))
    assert dict(table.frame.schema) == {k: v for k, v in TRANSACTION_SCHEMA.items() if k != LABEL}
    assert table.report.notes() == []
    assert table.frame.height == 3
    assert table.frame.row(2, named=True) == {
        "MessageId": "INSTR-2",
        "Timestamp": datetime(2026, 1, 15, 10, 30),
        "UETR": "00000000-0000-4000-8000-000000000002",
        "Sender": "DEUTDEFF",
        "Receiver": "NWBKGB2L",
        "TransactionReference": "E2E-2",
        "OrderingAccount": IBANS[0],
        "OrderingName": "Müller & Söhne",
        "OrderingStreet": None,
        "OrderingCountryCityZip": None,
        "BeneficiaryAccount": IBANS[1],
        "BeneficiaryName": "Acme Ltd",
        "BeneficiaryStreet": None,
        "BeneficiaryCountryCityZip": None,
        "SettlementDate": date(2026, 1, 16),
        "SettlementCurrency": "EUR",
        "SettlementAmount": 1002.5,
        "InstructedCurrency": "GBP",
        "InstructedAmount": 902.25,
    }


def test_an_envelope_with_a_business_application_header_changes_nothing(tmp_path):
    kind = "pacs.008.001.10"
    message = foreign_message(kind, [row(0, 1)])
    plain = load(tmp_path / "plain.xml", message).frame
    assert load(tmp_path / "enveloped.xml", in_envelope(message, kind)).frame.equals(plain)


def test_prefixes_of_the_namespace_do_not_matter(tmp_path):
    prefixed = MESSAGE.replace("</", "\0").replace("<", "<p:").replace("\0", "</p:")
    prefixed = prefixed.replace("xmlns=", "xmlns:p=")
    plain = load(tmp_path / "plain.xml", MESSAGE).frame
    assert load(tmp_path / "prefixed.xml", prefixed).frame.equals(plain)


def test_a_folder_is_read_in_the_order_of_names_compressed_or_not(tmp_path):
    folder = tmp_path / "messages"
    folder.mkdir()
    for name in ("c", "a", "b"):
        text = MESSAGE.replace("M-1", f"M-{name}").encode()
        if name == "b":
            (folder / "b.xml.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"{name}.xml").write_bytes(text)
    (folder / "notes.txt").write_text("not a message")
    frame = load_transactions(folder, labels_required=False).frame
    assert frame["MessageId"].to_list() == ["M-a", "M-b", "M-c"]
    in_processes = read_messages(folder, workers=2)
    assert in_processes.rows.equals(frame)


def test_a_message_with_one_transaction_gives_its_id_to_it_and_others_their_instruction_id(
    tmp_path,
):
    assert first(tmp_path / "one.xml", MESSAGE)["MessageId"] == "M-1"
    with_zeros = MESSAGE.replace("<NbOfTxs>1", "<NbOfTxs>000001")
    assert first(tmp_path / "zeros.xml", with_zeros)["MessageId"] == "M-1"
    several = MESSAGE.replace("<NbOfTxs>1", "<NbOfTxs>2").replace(
        TRANSACTION,
        TRANSACTION.replace("<EndToEndId>", "<InstrId>I-1</InstrId><EndToEndId>")
        + TRANSACTION.replace("</EndToEndId>", "</EndToEndId><TxId>T-2</TxId>"),
    )
    assert load(tmp_path / "two.xml", several).frame["MessageId"].to_list() == ["I-1", "T-2"]


def test_what_a_message_leaves_out_is_taken_from_its_next_of_kin_and_counted(tmp_path):
    values = first(tmp_path / "m.xml", MESSAGE)
    assert (values["Sender"], values["Receiver"]) == ("BANKDEFF", "BANKFRPP")
    assert (values["InstructedCurrency"], values["InstructedAmount"]) == ("EUR", 10.5)
    assert values["OrderingAccount"] == "A1"
    without_uetr = MESSAGE.replace("<UETR>u-1</UETR>", "<TxId>T-1</TxId>")
    table = load(tmp_path / "t.xml", without_uetr)
    assert table.frame["UETR"].to_list() == ["T-1"]
    notes = "\n".join(table.report.notes())
    assert "1 transactions have no UETR" in notes
    assert "1 transactions have no InstdAmt" in notes


def test_agents_of_the_leg_come_before_those_of_the_parties(tmp_path):
    def agents(tag: str, bic: str) -> str:
        return f"<{tag}><FinInstnId><BICFI>{bic}</BICFI></FinInstnId></{tag}>"

    of_group = MESSAGE.replace(HEADER, HEADER + agents("InstgAgt", "GRUPUS33"))
    assert first(tmp_path / "g.xml", of_group)["Sender"] == "GRUPUS33"
    of_leg = of_group.replace(AGENTS, agents("InstgAgt", "LEGSUS33XXX") + AGENTS)
    assert first(tmp_path / "l.xml", of_leg)["Sender"] == "LEGSUS33"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-15T10:30:00.250", datetime(2026, 1, 15, 10, 30, 0, 250_000)),
        ("2026-01-15T10:30:00Z", datetime(2026, 1, 15, 10, 30)),
        ("2026-01-15T00:30:00+01:00", datetime(2026, 1, 14, 23, 30)),
        ("2026-01-15T10:30:00.5-05:30", datetime(2026, 1, 15, 16, 0, 0, 500_000)),
    ],
)
def test_times_with_an_offset_are_converted_to_utc(tmp_path, text, moment):
    message = MESSAGE.replace("2026-01-15T10:30:00", text)
    assert first(tmp_path / "m.xml", message)["Timestamp"] == moment


STREET, TOWN = (
    "<StrtNm>Rue A</StrtNm><BldgNb>5</BldgNb>",
    "<PstCd>75001</PstCd><TwnNm>Paris</TwnNm>",
)
FRANCE = "<Ctry>FR</Ctry>"


@pytest.mark.parametrize(
    ("address", "street", "place"),
    [
        (STREET + TOWN + FRANCE, "Rue A 5", "FR/75001 Paris"),
        ("<TwnNm>Paris</TwnNm>" + FRANCE, None, "FR/Paris"),
        (FRANCE, None, "FR/"),
        (
            "<PstCd>58442</PstCd><TwnNm>Town</TwnNm><CtrySubDvsn>DC</CtrySubDvsn><Ctry>US</Ctry>",
            None,
            "US/Town, DC 58442",
        ),
        (TOWN + FRANCE + "<AdrLine>c/o B</AdrLine><AdrLine>Rue A</AdrLine>", "c/o B, Rue A",
         "FR/75001 Paris"),
        ("<AdrLine>Rue A</AdrLine><AdrLine>FR/75001 Paris</AdrLine>", "Rue A", "FR/75001 Paris"),
        (FRANCE + "<AdrLine>c/o B</AdrLine><AdrLine>Rue A</AdrLine><AdrLine>Paris</AdrLine>",
         "c/o B, Rue A", "FR/Paris"),
        ("<AdrLine>Rue A, Paris</AdrLine>", "Rue A, Paris", None),
        (STREET + FRANCE + "<AdrLine>c/o B</AdrLine><AdrLine>Paris</AdrLine>", "Rue A 5, c/o B",
         "FR/Paris"),
    ],
)  # fmt: skip
def test_structured_mixed_and_free_addresses_become_street_and_place(
    tmp_path, address, street, place
):
    text = MESSAGE.replace("<Nm>A</Nm>", f"<Nm>A</Nm><PstlAdr>{address}</PstlAdr>")
    values = first(tmp_path / "m.xml", text)
    assert (values["OrderingStreet"], values["OrderingCountryCityZip"]) == (street, place)


def test_wrong_ibans_and_bics_of_agents_are_counted_and_kept(tmp_path):
    wrong = IBANS[0].replace("8", "7", 1)
    rows = [row(0, 1, debtor_account_iban=wrong)]
    message = foreign_message("pacs.008.001.08", rows)
    table = load(tmp_path / "m.xml", message.replace("<BICFI>DEUTDEFF<", "<BICFI>D-1<"))
    assert table.frame["OrderingAccount"].to_list() == [wrong]
    assert [note.split(": ", 1)[1].split(" ")[0:2] for note in table.report.notes()] == [
        ["1", "accounts"],
        ["1", "agents"],
    ]


def test_ibans_are_told_by_form_and_check_digits():
    texts = [*IBANS, "NO9386011117947", "MT84MALT011000012345MTLCAST001S", "FR14", None]
    texts += [IBANS[0][:-1] + "1", "DE00" + IBANS[0][4:], "18 digits", "123456789012345678"]
    assert is_iban(pl.Series(texts)).to_list() == [True] * 4 + [False] * 6


def test_a_file_of_any_length_is_read_in_batches_of_bounded_size(tmp_path, monkeypatch):
    # Each batch is gone before the next one is made: that many rows are in memory, and no more.
    monkeypatch.setattr(records, "BATCH_RECORDS", 100)
    n_messages = 5_000
    path = tmp_path / "m.xml"
    path.write_text(f"<all>{MESSAGE * n_messages}</all>")
    in_a_chunk = records._CHUNK_BYTES // len(TRANSACTION)
    sizes = [len(batch) for _, batch in read_records(path, [LAYOUT], set())]
    assert sum(sizes) == n_messages
    assert max(sizes) <= 100 + in_a_chunk


def test_the_parser_keeps_nothing_of_what_it_does_not_read(tmp_path):
    # 60 MB of a signature inside of a transaction, in a text and in elements, leave one record.
    import tracemalloc  # noqa: PLC0415

    path = tmp_path / "m.xml.gz"
    start, end = MESSAGE.split(PAYMENT_ID)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(f"{start}{PAYMENT_ID}<SplmtryData>".encode())
        for number in range(60):
            file.write((f"<Envlp>{number}</Envlp>" * 20_000).encode())
            file.write(bytes(range(65, 91)) * 20_000)
        file.write(f"</SplmtryData>{end}".encode())
    tracemalloc.start()
    try:
        ((_, found),) = read_records(path, [LAYOUT], set())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 1
    assert peak < 3 << 20


def test_counts_of_several_batches_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "BATCH_RECORDS", 1)
    path = tmp_path / "m.xml"
    messages = "".join(MESSAGE.replace("M-1", f"M-{n}") for n in range(2_000))
    counted = Counter(load(path, f"<all>{messages}</all>").report.remarks)
    assert counted == {
        f"{path}: 2,000 transactions have no InstdAmt; the settlement amount stands in for it": 1
    }


def test_amounts_and_currencies_belong_together(tmp_path):
    text = MESSAGE.replace(AMOUNT, AMOUNT + "<InstdAmt>7</InstdAmt>")
    path = tmp_path / "m.xml"
    path.write_text(text)
    sheet = read_messages(path)
    assert [check.column for check in sheet.found] == ["InstructedCurrency"]
