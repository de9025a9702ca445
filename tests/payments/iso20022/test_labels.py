"""Claims about labels of messages: a side file, and what rejections and recalls make of it."""

from pathlib import Path

import polars as pl
import pytest
from tests.kit.iso_messages import MESSAGE, foreign_message

from pv4fad.errors import DataError
from pv4fad.payments.iso20022.returns import labels_from_returns
from pv4fad.payments.loading import load_transactions

RECALL = (
    '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.056.001.08"><FIToFIPmtCxlReq>'
    "<Assgnmt><Id>R-1</Id></Assgnmt><Undrlyg><TxInf><CxlId>C-1</CxlId>"
    "<OrgnlUETR>u-1</OrgnlUETR></TxInf></Undrlyg></FIToFIPmtCxlReq></Document>"
)


@pytest.fixture
def payments(tmp_path):
    """Three messages: two legs of payment u-1, and one of payment u-2."""
    texts = [MESSAGE.replace("M-1", f"M-{n}") for n in (1, 2)]
    texts.append(MESSAGE.replace("M-1", "M-3").replace("u-1", "u-2"))
    path = tmp_path / "payments.xml"
    path.write_text(f"<all>{''.join(texts)}</all>")
    return path


def labels(path, text):
    path.with_name("payments.labels.csv").write_text(text)
    return load_transactions(path, labels_required=True).frame["Label"].to_list()


def refusal(path, text):
    with pytest.raises(DataError) as refused:
        labels(path, text)
    return str(refused.value).removeprefix(f"{path.with_name('payments.labels.csv')}: ")


def test_labels_by_message_belong_to_one_leg_and_by_uetr_to_all(payments):
    assert labels(payments, "MessageId,Label\nM-2,1\nM-1,0\nM-3,0\n") == [0, 1, 0]
    assert labels(payments, "Label,UETR\n1,u-1\n0,u-2\n") == [1, 1, 0]


def test_the_present_folder_has_its_label_file_beside_it(payments, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    payments.rename(folder / "a.xml")
    (tmp_path / "folder.labels.csv").write_text("UETR,Label\nu-1,1\nu-2,0\n")
    monkeypatch.chdir(folder)
    assert load_transactions(Path(), labels_required=True).frame["Label"].to_list() == [1, 1, 0]


def test_messages_without_a_label_file_are_refused_where_labels_are_needed(payments):
    assert not load_transactions(payments, labels_required=False).has_labels
    with pytest.raises(
        DataError, match=r"messages carry no labels; put them .* payments.labels.csv"
    ):
        load_transactions(payments, labels_required=True)


def test_unknown_repeated_and_missing_ids_are_refused(payments):
    good = "MessageId,Label\nM-1,0\nM-2,1\n"
    assert refusal(payments, good + "M-3,0\nM-4,0\n") == (
        f"column MessageId: 1 ids of no transaction in {payments}; first: data row 4"
    )
    assert refusal(payments, good + "M-3,0\nM-3,0\n") == (
        "column MessageId: 1 ids listed more than once; first: data row 4"
    )
    side_file = payments.with_name("payments.labels.csv")
    assert refusal(payments, good) == (
        f"{payments}: column Label: 1 row has no label in {side_file}; first: transaction 3 of"
        f" {payments} (MessageId M-3)"
    )


def test_a_label_file_that_is_no_such_is_refused(payments):
    needs = "needs a column MessageId or UETR, one of them, and Label"
    assert refusal(payments, "Id,Label\nM-1,0\n") == needs
    assert refusal(payments, "MessageId,UETR,Label\nM-1,u-1,0\n") == needs
    assert "a label other than 0 and 1" in refusal(payments, "MessageId,Label\nM-1,2\n")
    payments.with_name("payments.labels.parquet").write_bytes(b"")
    assert "both hold labels" in refusal(payments, "MessageId,Label\nM-1,0\n")


def test_a_table_with_labels_of_its_own_takes_no_others(payments, tmp_path):
    table = load_transactions(payments, labels_required=False).frame
    other = tmp_path / "other.csv"
    other.write_text("UETR,Label\nu-1,1\nu-2,0\n")
    table.write_parquet(tmp_path / "a.parquet")
    labelled = load_transactions(tmp_path / "a.parquet", labels_required=True, labels=other).frame
    assert labelled["Label"].to_list() == [1, 1, 0]
    labelled.write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="has labels of its own"):
        load_transactions(tmp_path / "b.parquet", labels_required=True, labels=other)


def status(number, tx_sts, **changes):
    return {
        "msg_id": "S-1",
        "creation_date_time": "2026-01-16T10:00:00",
        "original_msg_id": "M-1",
        "original_msg_nm_id": "pacs.008.001.08",
        "original_end_to_end_id": "E-1",
        "original_tx_id": number,
        "tx_sts": tx_sts,
    } | changes


def test_rejections_of_another_package_become_labels(payments, tmp_path):
    transactions = load_transactions(payments, labels_required=False).frame
    rows = [status("u-2", "RJCT"), status("u-1", "ACSC"), status("u-9", "RJCT")]
    path = tmp_path / "status.xml"
    path.write_text(foreign_message("pacs.002.001.12", rows))
    made = labels_from_returns(transactions, path)
    assert made.frame["Label"].to_list() == [0, 0, 1]
    assert made.counts == {"rejected": 1, "other statuses": 1, "unknown": 1}


def test_recalls_become_labels_of_all_legs(payments, tmp_path):
    transactions = load_transactions(payments, labels_required=False).frame
    folder = tmp_path / "returns"
    folder.mkdir()
    (folder / "a.xml").write_text(RECALL)
    (folder / "b.xml").write_text(
        RECALL.replace("UETR>u-1", "InstrId>M-3").replace("UETR", "InstrId")
    )
    made = labels_from_returns(transactions, folder)
    assert made.frame["Label"].to_list() == [1, 1, 1]
    assert made.counts == {"recalled": 2}


def test_a_message_that_names_no_transaction_is_refused(payments, tmp_path):
    transactions = load_transactions(payments, labels_required=False).frame
    path = tmp_path / "r.xml"
    path.write_text(RECALL.replace("TxInf", "OrgnlGrpInfAndCxl"))
    with pytest.raises(DataError, match="names no transaction"):
        labels_from_returns(transactions, path)


STATUS = (
    '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pacs.002.001.10"><FIToFIPmtStsRpt>'
    "<GrpHdr><MsgId>S-2</MsgId></GrpHdr>"
    "<OrgnlGrpInfAndSts><OrgnlMsgId>M-1</OrgnlMsgId><GrpSts>RJCT</GrpSts></OrgnlGrpInfAndSts>"
    "{}</FIToFIPmtStsRpt></Document>"
)


def test_a_group_is_rejected_with_the_transactions_that_the_message_names(payments, tmp_path):
    transactions = load_transactions(payments, labels_required=False).frame
    path = tmp_path / "s.xml"
    named = STATUS.format("<TxInfAndSts><OrgnlUETR>u-2</OrgnlUETR></TxInfAndSts>")
    path.write_text(named)
    assert labels_from_returns(transactions, path).frame["Label"].to_list() == [0, 0, 1]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (STATUS.format(""), "S-2"),
        (RECALL.replace("TxInf", "OrgnlGrpInfAndCxl").replace("R-1", "R-2"), "R-2"),
    ],
)
def test_a_group_without_transactions_is_refused_whatever_else_is_in_the_file(
    payments, tmp_path, other, message
):
    transactions = load_transactions(payments, labels_required=False).frame
    path = tmp_path / "r.xml"
    for both in (RECALL + other, other + RECALL):
        path.write_text(f"<all>{both}</all>")
        with pytest.raises(DataError) as refused:
            labels_from_returns(transactions, path)
        assert str(refused.value) == (
            f"{path}: message '{message}': names no transaction (one about a whole group is not"
            " read)"
        )


def test_the_command_writes_a_file_that_the_messages_load_with(payments, tmp_path, command_line):
    (tmp_path / "returns.xml").write_text(RECALL)
    file = payments.with_name("payments.labels.csv")
    code, printed, _ = command_line(
        "data", "labels", payments, tmp_path / "returns.xml", "--out", file
    )
    assert code == 0
    assert "2 of 3 transactions have label 1" in " ".join(printed.split())
    assert pl.read_csv(file)["Label"].to_list() == [1, 1, 0]
    assert load_transactions(payments, labels_required=True).has_labels
    assert command_line("data", "labels", payments, tmp_path / "returns.xml", "--out", file)[0] == 2
