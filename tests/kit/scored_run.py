"""A finished run that was never trained, and predictions that were never computed: no cryptography.

The documents are real; what the predictions say is chosen so that the measures are known.  Folders
of tests take the fixtures into their conftest.
"""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.kit.small_federation import records_of

from pv4fad.evaluation.scored import default_predictions
from pv4fad.lead.data import bank_directory
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.challenge import write_partition, write_scenarios
from pv4fad.payments.generate import Difficulty, GeneratedTables, Settings, generate_tables
from pv4fad.payments.schema import SCHEMA
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import PhaseCost, Traffic
from pv4fad.run.predictions import prediction_table

BANKS = ("bank01", "bank02")


@cache
def generated() -> GeneratedTables:
    """Enough anomalies in the test period to be found or missed."""
    settings = Settings(2000, 3, Difficulty.HARD, 3, anomaly_rate=0.05, accounts=300)
    return generate_tables(settings)


@pytest.fixture(scope="session")
def tables() -> GeneratedTables:
    return generated()


@pytest.fixture(scope="session")
def document() -> RunDocument:
    return finished_document()


@pytest.fixture(scope="session")
def data(tables, tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"), tables)


@pytest.fixture
def pv4fad(command_line):
    """The command line; what it says on standard error without line breaks."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code, out, err = command_line(*arguments)
        return code, out, " ".join(err.split())

    return call


@cache
def finished_document(**settings: Any) -> RunDocument:
    """run.json of a run with ε = 1, unless the settings say otherwise."""
    tables = generated()
    records = records_of(tables.accounts, *BANKS)
    new = prepare_run(
        LeadData(SCHEMA, tables.train.transactions, bank_directory(records)),
        {bank: frame.height for bank, frame in records.items()},
        TrainingSettings(**{"epsilon": "1", "seed": 5} | settings),
    )
    begun = datetime(2026, 1, 2, tzinfo=UTC)
    document = RunDocument.of_new_run(new.parameters, SCHEMA, begun)
    costs = {"prepare": 2.5, "propose": 0.2, "match": 20.0, "count": 4.0}
    return document.model_copy(
        update={
            "state": "finished",
            "finished": datetime(2026, 1, 2, 0, 1, tzinfo=UTC),
            "phases": tuple(
                PhaseCost(phase=phase, seconds=seconds, messages=3, bytes=1_500_000)
                for phase, seconds in costs.items()
            ),
            "traffic": (
                Traffic(
                    kind="encrypted-table",
                    sender="payment-network",
                    receiver="bank",
                    messages=2,
                    bytes=250_000_000,
                ),
                Traffic(
                    kind="noisy-sums",
                    sender="bank",
                    receiver="aggregator",
                    messages=2,
                    bytes=1_200,
                ),
            ),
        }
    )


def write_data(root: Path, tables: GeneratedTables) -> Path:
    """A challenge folder with a train and a labelled test split."""
    accounts = {bank: tables.accounts[bank] for bank in BANKS}
    for split in ("train", "test"):
        transactions = getattr(tables, split).transactions
        write_partition(root / "scenario01" / split, transactions, accounts)
    write_scenarios(root, ["scenario01"])
    return root


def predictions(transactions: pl.DataFrame) -> pl.DataFrame:
    """Decisions.  With the banks all anomalies are found first; alone, every second one.

    All anomalies become alerts but the last one, and one normal payment does as well.
    """
    labels = transactions["Label"].to_numpy()
    n = len(labels)
    own = np.where((labels == 1) & (np.arange(n) % 2 == 0), 0.4, 0.1) + np.arange(n) / n / 1000
    alert = labels == 1
    alert[np.flatnonzero(labels == 1)[-1]] = False
    alert[np.flatnonzero(labels == 0)[0]] = True
    score = np.where(alert, 0.5, 0.0) + np.where(labels == 1, 0.45, own / 10)
    return prediction_table(
        transactions["MessageId"],
        score=score,
        alert=alert,
        level=np.where(alert, 2 + (score > 0.9), 0).astype(np.int8),
        local_score=own,
        reasons=["the bank's record; log_amount high" if one else None for one in alert],
    )


def votes(transactions: pl.DataFrame, n_trees: int = 24) -> pl.DataFrame:
    """Of the paper's model: anomalies have the majority, all others a few votes."""
    labels = transactions["Label"].to_numpy()
    total = np.where(labels == 1, n_trees - 1, np.arange(len(labels)) % 4)
    return pl.DataFrame(
        {
            "MessageId": transactions["MessageId"],
            "Score": total / n_trees,
            "Label": (total > n_trees / 2).astype(np.int8),
            "Confidence": np.maximum(total, n_trees - total) / n_trees,
            "GreenVotes": np.zeros(len(labels), np.int64),
            "OrderingVotes": total // 2,
            "BeneficiaryVotes": total - total // 2,
            "Reasons": "log_amount >= 9.2 (7 trees)",
        }
    )


def write_run(folder: Path, document: RunDocument, made: pl.DataFrame | None) -> Path:
    """A run folder, with predictions where they are looked for."""
    RunFolder(folder).write(document)
    if made is not None:
        default_predictions(folder).parent.mkdir(parents=True, exist_ok=True)
        made.write_csv(default_predictions(folder))
    return folder
