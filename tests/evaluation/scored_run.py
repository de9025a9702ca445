"""A finished run that was never trained, and predictions that were never computed: no cryptography.

The documents are real; what the predictions say is chosen so that the measures are known.
"""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from pv4fad.data.challenge import write_partition, write_scenarios
from pv4fad.data.generate import Difficulty, GeneratedTables, Settings, generate_tables
from pv4fad.evaluation.scored import default_predictions
from pv4fad.federation import run_parameters
from pv4fad.runs.document import RunDocument
from pv4fad.runs.folder import RunFolder
from pv4fad.runs.meter import PhaseCost, Traffic
from pv4fad.runs.prepare import bank_directory, prepare_payment_network
from pv4fad.runs.settings import TrainingSettings

BANKS = ("bank01", "bank02")


def generated() -> GeneratedTables:
    """Enough anomalies in the test period to be found or missed."""
    settings = Settings(2000, 3, Difficulty.HARD, 3, anomaly_rate=0.05, accounts=300)
    return generate_tables(settings)


def finished_document(tables: GeneratedTables) -> RunDocument:
    """run.json of a run with ε = 1."""
    accounts = {bank: tables.accounts[bank] for bank in BANKS}
    settings = TrainingSettings(epsilon="1")
    prepared = prepare_payment_network(
        tables.train.transactions, bank_directory(accounts), settings, 5
    )
    parameters = run_parameters(
        prepared.training,
        {bank: frame.height for bank, frame in accounts.items()},
        bound=1,
        epsilon=Fraction(1),
        noise="distributed",
        honest_banks=1,
        mode="sealed",
    )
    document = RunDocument.of_new_run(parameters, b"\1" * 32, datetime(2026, 1, 2, tzinfo=UTC))
    costs = {"prepare": 2.5, "propose": 0.2, "match": 20.0, "count": 4.0, "compare": 1.0}
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


def predictions(transactions: pl.DataFrame, n_trees: int = 12) -> pl.DataFrame:
    """All details.  With the banks all anomalies are found first; alone, every second one."""
    labels = transactions["Label"].to_numpy()
    n = len(labels)
    votes = np.where(labels == 1, n_trees - 1, np.arange(n) % 4)
    known = (labels == 1) & (np.arange(n) % 2 == 0)
    return pl.DataFrame(
        {
            "MessageId": transactions["MessageId"],
            "Score": votes / n_trees,
            "LocalScore": np.where(known, 0.9, 0.3) + np.arange(n) / n / 1000,
            "Label": (votes > n_trees / 2).astype(np.int8),
            "Confidence": np.maximum(votes, n_trees - votes) / n_trees,
            "GreenVotes": np.zeros(n, np.int64),
            "OrderingVotes": votes // 2,
            "BeneficiaryVotes": votes - votes // 2,
            "Reasons": "log_amount >= 9.2 (7 trees)",
            "RedLabels": "sealed",
        }
    )


def write_run(folder: Path, document: RunDocument, made: pl.DataFrame | None) -> Path:
    """A run folder, with predictions where they are looked for."""
    RunFolder(folder).write(document)
    if made is not None:
        default_predictions(folder).parent.mkdir(parents=True, exist_ok=True)
        made.write_csv(default_predictions(folder))
    return folder
