"""`pv4fad bench whole`: what a user does, from generated data to its evaluation, step by step.

    generate   data check   train   score   evaluate   report

Every step is the command itself, run as a user runs it.  Training and scoring say by phase what
they took; bytes are those that the parties sent each other.  What the phase `prepare` of training
is made of is measured afterwards, by doing it once more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pv4fad import __version__
from pv4fad.lead.data import bank_directory, load_split
from pv4fad.lead.prepare import prepare_payment_network
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.challenge import training_split
from pv4fad.payments.schema import SCHEMA
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import PhaseCost
from pv4fad.run.scoring_record import read_record
from pv4fad.tables.features import compute_features
from pv4fad.workers import Workers
from pv4fad_bench.harness import this_machine
from pv4fad_bench.steps import Step, run_step

STEPS = ("generate", "data check", "train", "score", "evaluate", "report")


@dataclass(frozen=True)
class Journey:
    """What to do."""

    transactions: int
    banks: int
    epsilon: str
    alert_share: float
    anomaly_rate: float | None
    """None: that of `pv4fad generate`."""
    workers: Workers
    seed: int


@dataclass(frozen=True)
class JourneyReport:
    """What it took."""

    journey: Journey
    steps: tuple[Step, ...]
    phases: dict[str, tuple[PhaseCost, ...]]
    """Of train and score."""
    preparation: dict[str, float]
    """Wall seconds of the parts of preparing the training."""
    accounts: int
    scored: int
    evaluation: dict[str, Any]
    """As `pv4fad evaluate --json` prints it."""

    def n_bytes(self, step: str) -> int:
        """Sent between the parties."""
        return sum(phase.bytes for phase in self.phases.get(step, ()))

    def document(self) -> dict[str, Any]:
        """For a JSON file."""
        steps = [
            {name: value for name, value in asdict(one).items() if name != "printed"}
            | {"bytes": self.n_bytes(one.name)}
            for one in self.steps
        ]
        phases = {
            step: [phase.model_dump() for phase in costs] for step, costs in self.phases.items()
        }
        return {
            "pv4fad": __version__,
            "benchmark": "whole",
            "machine": this_machine(),
            "journey": asdict(self.journey),
            "accounts": self.accounts,
            "scored": self.scored,
            "steps": steps,
            "phases": phases,
            "preparation": self.preparation,
            "evaluation": self.evaluation,
        }


def travel(journey: Journey, place: Path, begin: Callable[[str], None]) -> JourneyReport:
    """All steps, in the folder `place`; `begin` is told the name of each."""
    data, run, key = place / "DATA", place / "RUN", place / "KEY"
    predictions = place / "predictions.csv"
    workers = () if journey.workers is None else ("--workers", journey.workers)
    scored = (run, data, "--predictions", predictions)
    settings = (
        *("--epsilon", journey.epsilon, "--alert-share", journey.alert_share),
        *("--seed", journey.seed, "--key-file", key),
    )
    size = ("--transactions", journey.transactions, "--banks", journey.banks)
    rate = () if journey.anomaly_rate is None else ("--anomaly-rate", journey.anomaly_rate)
    commands: dict[str, tuple[object, ...]] = {
        "generate": ("generate", data, *size, *rate, "--seed", journey.seed),
        "data check": ("data", "check", data),
        "train": ("train", data, "--out", run, *settings, *workers),
        "score": ("score", run, data, "--out", predictions, "--key-file", key, *workers),
        "evaluate": ("evaluate", *scored, "--json"),
        "report": ("report", *scored, "--out", place / "report.html", "--key-file", key),
    }
    steps: dict[str, Step] = {}
    for name in STEPS:
        begin(name)
        steps[name] = run_step(name, commands[name])
    document, record = RunFolder(run).require_finished(), read_record(predictions)
    return JourneyReport(
        journey,
        tuple(steps.values()),
        {"train": document.phases, "score": record.phases if record else ()},
        preparation(data, journey),
        sum(document.parameters.banks.values()),
        predictions.read_bytes().count(b"\n") - 1,
        json.loads(steps["evaluate"].printed),
    )


def preparation(data: Path, journey: Journey) -> dict[str, float]:
    """Seconds of reading, of features and of the model, as `pv4fad train` does them."""
    seconds, now = {}, time.perf_counter()

    def done(part: str) -> None:
        nonlocal now
        before, now = now, time.perf_counter()
        seconds[part] = now - before

    split = load_split(SCHEMA, training_split(data))
    lead = LeadData(SCHEMA, split.rows, bank_directory(split.records))
    done("read")
    features = compute_features(SCHEMA, lead.rows)
    done("features")
    settings = TrainingSettings(epsilon=journey.epsilon, alert_share=journey.alert_share)
    prepare_payment_network(lead, settings, journey.seed, features)
    done("local model")
    return seconds
