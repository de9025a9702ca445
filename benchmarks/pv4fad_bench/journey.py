"""`pv4fad bench whole`: what a user does, from generated data to its evaluation, step by step.

    generate   data check   train   score   evaluate   report

Every step is the command itself, run as a user runs it.  Training and scoring say by phase what
they took; bytes are those that the parties sent each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pv4fad import __version__
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import PhaseCost
from pv4fad.run.scoring_record import read_record
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
        sum(document.parameters.banks.values()),
        predictions.read_bytes().count(b"\n") - 1,
        json.loads(steps["evaluate"].printed),
    )
