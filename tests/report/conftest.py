"""A scored run with ledgers, whose data is hostile, the report and the dossier on it."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import polars as pl
import pytest
from tests.kit.report_page import HOSTILE, LONG, PASSPHRASE
from tests.kit.scored_run import (
    data,
    finished_document,
    predictions,
    pv4fad,
    tables,
    write_data,
    write_run,
)

from pv4fad.attack.findings import Attack, Finding
from pv4fad.audit.verify import Audit
from pv4fad.audit.verify_chain import Fault
from pv4fad.evaluation.scored import default_predictions
from pv4fad.privacy.ledger import Expense, charge_delta, set_limit, spend
from pv4fad.report.content import gather
from pv4fad.report.dossier.integrity import Integrity
from pv4fad.report.dossier.pages import Dossier, dossier_files
from pv4fad.report.page import page
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import PhaseCost, Traffic
from pv4fad.run.scoring_record import Learned, ScoringRecord, write_record
from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase

__all__ = ["data", "document", "pv4fad", "tables"]


def spoiled(transactions: pl.DataFrame) -> pl.DataFrame:
    """The ids of the first anomalies are an attack on the page, and too long for any column."""
    anomalies = transactions.filter(pl.col("Label") == 1)["MessageId"]
    wrong = {anomalies[0]: HOSTILE, anomalies[1]: LONG}
    return transactions.with_columns(pl.col("MessageId").replace(wrong))


def write_ledger(folder, bank: str, run_id: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    with DiskStore.create(folder, bank, Passphrase(PASSPHRASE)) as store, store.transaction() as tx:
        set_limit(tx, Fraction(3), now)
        noise = "distributed"
        spend(tx, Expense(run_id, Fraction(1), 2, "one record", noise, "ab" * 32, now, 2))
        charge_delta(tx, "match", Fraction(1, 2**12), datetime.now(UTC))


@pytest.fixture(scope="session")
def hostile_data(tables, tmp_path_factory):
    root = write_data(tmp_path_factory.mktemp("hostile"), tables)
    file = root / "scenario01" / "test" / "swift" / "swift_transaction_test_dataset.csv"
    spoiled(
        pl.read_csv(file, infer_schema=False).with_columns(pl.col("Label").cast(int))
    ).write_csv(file)
    return root


@pytest.fixture(scope="session")
def document():
    """As the ledgers have it."""
    return finished_document(honest_banks=2)


@pytest.fixture(scope="session")
def run(document, tables, tmp_path_factory):
    """With predictions, their record, and the stores of the banks."""
    made = predictions(spoiled(tables.test.transactions))
    reasons = pl.when(pl.col("Alert") == 1).then(pl.lit("the bank's record; <b>x</b> < 3"))
    made = made.with_columns(Reasons=reasons)
    folder = write_run(tmp_path_factory.mktemp("report") / "run", document, made)
    phases = {"prepare": 3.0, "match": 12.0, "score": 31.0}
    record = ScoringRecord(
        run_id=document.run_id,
        scoring="decisions",
        alert_share=0.002,
        learned=Learned(
            rows=20_001,
            rows_asked=1_234,
            records=9_876,
            records_asked=543,
            alerts=77,
            holder_alerts=11,
        ),
        records_known=678,
        records_positive=9,
        phases=tuple(
            PhaseCost(phase=phase, seconds=seconds, messages=2, bytes=10**8)
            for phase, seconds in phases.items()
        ),
        traffic=(
            Traffic(
                kind="score-query",
                sender="payment-network",
                receiver="bank",
                messages=2,
                bytes=290_000_000,
            ),
            Traffic(
                kind="score-reply",
                sender="bank",
                receiver="payment-network",
                messages=2,
                bytes=12_345,
            ),
        ),
    )
    write_record(default_predictions(folder), record)
    for bank in document.parameters.banks:
        write_ledger(folder / bank, bank, document.run_id)
    return folder


@pytest.fixture(scope="session")
def whole(run, hostile_data):
    """All that a report can have."""
    scenario = hostile_data / "scenario01"
    splits = (scenario / "train", scenario / "test")
    passphrase = Passphrase(PASSPHRASE)
    return gather(RunFolder(run), default_predictions(run), splits, passphrase, joined=True)


@pytest.fixture(scope="session")
def report(whole, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page(whole), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def hostile_dossier(whole, document):
    """Every text that comes from a file or from another party is an attack on the page."""
    schema = document.data_schema
    rows = schema.rows.model_copy(update={"label": HOSTILE, "id": HOSTILE, "time": HOSTILE})
    schema = schema.model_copy(update={"rows": rows})
    privacy = document.privacy.model_copy(update={"claim": HOSTILE})
    changed = {"data_schema": schema, "privacy": privacy, "program": HOSTILE}
    attack = Attack(
        run_id=document.run_id,
        findings=(Finding(attacker="lead", target=HOSTILE, measure=HOSTILE, found=1, n=1),),
    )
    content = replace(whole, document=document.model_copy(update=changed), attack=attack)
    hostile = (Fault(HOSTILE, HOSTILE),)
    audit = Audit((HOSTILE,), 1, 1, 1, 0, hostile, hostile)
    integrity = Integrity(
        program=HOSTILE,
        origin=HOSTILE,
        run_program=HOSTILE,
        schema_digest="ab" * 32,
        commitment="cd" * 32,
        files={HOSTILE: "ef" * 32},
        parties=((HOSTILE, "01" * 32, 1),),
        audit=audit,
        gaps=(),
    )
    return dossier_files(Dossier.of(content, integrity, datetime(2026, 1, 3, tzinfo=UTC)))
