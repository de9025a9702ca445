"""`pv4fad bench classes`: what the default model costs with more classes of records.

Every job (`whole`) trains and scores with one bank.  Each class is a kind of its own: there are as
many counts in a cell as classes, and as many rounds of questions, one for each class but the
ordinary one and one for absent records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pv4fad import __version__
from pv4fad.protocol.score.messages import ScoreQuery, ScoreReply
from pv4fad.workers import Workers
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.harness import Phase, Progress, this_machine
from pv4fad_bench.whole import run_whole_job

CLASSES = (4, 11, 32)
PER_ACCOUNT = 4
_SECONDS_PER_ACCOUNT = 2e-5  # and class, for the estimate


@dataclass(frozen=True)
class ClassesPoint:
    """One job."""

    workload: EvidenceWorkload
    counts: int
    rounds: int
    phases: dict[str, Phase]
    train_bytes: int
    score_bytes: int
    log2_distance: float
    """Of everything that is sanitised in training, from uniform."""
    checks: dict[str, bool]


@dataclass(frozen=True)
class ClassesReport:
    """All jobs, in the order given."""

    points: tuple[ClassesPoint, ...]

    @property
    def passed(self) -> bool:
        return all(all(point.checks.values()) for point in self.points)

    def document(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "pv4fad": __version__,
            "benchmark": "classes",
            "machine": this_machine(),
            **asdict(self),
        }


def bench_classes(
    pns_accounts: int,
    bank_accounts: int,
    classes: Sequence[int],
    workers: Workers,
    progress: Progress,
) -> ClassesReport:
    """Run a job for each number of classes."""
    workloads = [EvidenceWorkload(pns_accounts, bank_accounts, n_classes=n) for n in classes]
    accounts = pns_accounts + bank_accounts
    progress.begin(_SECONDS_PER_ACCOUNT * accounts * sum(classes), len(workloads))
    return ClassesReport(tuple(_point(one, workers, progress) for one in workloads))


def _point(workload: EvidenceWorkload, workers: Workers, progress: Progress) -> ClassesPoint:
    job = run_whole_job(
        workload,
        n_transactions=workload.pns_accounts * PER_ACCOUNT,
        per_account=PER_ACCOUNT,
        workers=workers,
        advance=lambda: None,
    )
    progress.advance()
    scoring = (ScoreQuery.kind, ScoreReply.kind)
    parameters = workload.parameters()
    return ClassesPoint(
        workload,
        parameters.sizes.n_sums,
        workload.n_layers(PER_ACCOUNT),
        job.phases,
        sum(one.n_bytes for one in job.traffic if one.kind not in scoring),
        sum(one.n_bytes for one in job.traffic if one.kind in scoring),
        parameters.log2_distance,
        job.checks,
    )
