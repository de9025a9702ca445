"""`pv4fad bench scaling`: how the cost grows with each size, one at a time.

Every point is a whole job (`whole`) on generated data.  The exponent is the slope of a straight
line through log(CPU seconds) against log(size): 1 is linear, less is better.  CPU seconds, because
they do not depend on what else the machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from pv4fad import __version__
from pv4fad.workers import Workers
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.harness import Progress, this_machine
from pv4fad_bench.paper_workload import PaperWorkload
from pv4fad_bench.whole import run_whole_job
from pv4fad_bench.workload import Workload

Model = Literal["evidence", "paper"]

TRAIN, SCORE = "train", "score"
_SMALL_BANK = 5  # of a bank among many: a fifth of the accounts
_SECONDS_PER_ACCOUNT = 5e-4  # of either kind, for the estimate


@dataclass(frozen=True)
class Study:
    """A workload to vary, and the sizes to give it."""

    base: Workload
    per_account: int
    sizes: Mapping[str, tuple[int, ...]]


def study(accounts: int, model: Model) -> Study:
    """Sizes double twice, the number of banks thrice by four; the middle of what is varied last is
    the base.

    The paper's model is scored by votes; the default one has no leaves to vary.
    """
    paper = PaperWorkload(accounts, accounts, groups_per_tree=8)
    sizes = {
        "pns_accounts": (accounts, 2 * accounts, 4 * accounts),
        "bank_accounts": (accounts, 2 * accounts, 4 * accounts),
        "red_leaves": tuple(_leaves(paper, groups) for groups in (8, 16, 32)),
        "banks": (1, 4, 16, 64),
        "transactions": (2 * accounts, 4 * accounts, 8 * accounts),
    }
    if model == "paper":
        return Study(paper, 4, sizes)
    del sizes["red_leaves"]
    return Study(EvidenceWorkload(accounts, accounts), 4, sizes)


def _leaves(workload: PaperWorkload, groups_per_tree: int) -> int:
    return 2 * workload.n_trees * groups_per_tree


@dataclass(frozen=True)
class Point:
    """One job."""

    varied: str
    size: int
    cpu_s: dict[str, float]
    wall_s: dict[str, float]
    n_bytes: int
    checks: dict[str, bool]


@dataclass(frozen=True)
class ScalingReport:
    """All points, and the exponents they suggest."""

    model: Model
    points: tuple[Point, ...]

    @property
    def exponents(self) -> dict[str, dict[str, float]]:
        """[what is varied][train or score]."""
        return {
            varied: {kind: self._exponent(varied, kind) for kind in (TRAIN, SCORE)}
            for varied in dict.fromkeys(point.varied for point in self.points)
        }

    def _exponent(self, varied: str, kind: str) -> float:
        mine = [point for point in self.points if point.varied == varied]
        x = np.log([point.size for point in mine])
        y = np.log([point.cpu_s[kind] for point in mine])
        return float(np.polyfit(x, y, 1)[0])

    @property
    def passed(self) -> bool:
        return all(all(point.checks.values()) for point in self.points)

    def document(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "pv4fad": __version__,
            "benchmark": "scaling",
            "machine": this_machine(),
            "exponents": self.exponents,
            **asdict(self),
        }


def bench_scaling(
    accounts: int, model: Model, workers: Workers, progress: Progress
) -> ScalingReport:
    """Run every point.  A job that two sizes have in common is run once."""
    what = study(accounts, model)
    jobs = {(varied, size): _job(what, varied, size) for varied in what.sizes
            for size in what.sizes[varied]}  # fmt: skip
    different = dict.fromkeys(jobs.values())
    seconds = sum(
        _SECONDS_PER_ACCOUNT * one.n_banks * (one.bank_accounts + one.pns_accounts / one.n_banks)
        for one, _ in different
    )
    progress.begin(seconds, len(different))
    done = {job: _point(*job, workers, progress.advance) for job in different}
    return ScalingReport(
        model,
        tuple(replace(done[job], varied=varied, size=size) for (varied, size), job in jobs.items()),
    )


def _job(what: Study, varied: str, size: int) -> tuple[Workload, int]:
    """The workload, and the most payments of an account."""
    base = what.base
    match varied:
        case "pns_accounts":
            return replace(base, pns_accounts=size), what.per_account
        case "bank_accounts":
            return replace(base, bank_accounts=size), what.per_account
        case "red_leaves" if isinstance(base, PaperWorkload):
            return replace(base, groups_per_tree=size // _leaves(base, 1)), what.per_account
        case "banks":
            # Every bank brings accounts, here and at the payment network; each of many brings few.
            few = max(1, base.pns_accounts // _SMALL_BANK)
            grown = replace(base, n_banks=size, pns_accounts=few * size, bank_accounts=few)
            return grown, what.per_account
        case _:
            return base, size // base.pns_accounts


def _point(
    workload: Workload,
    per_account: int,
    workers: Workers,
    advance: Callable[[], None],
) -> Point:
    job = run_whole_job(
        workload,
        n_transactions=workload.pns_accounts * per_account,
        per_account=per_account,
        workers=workers,
        advance=lambda: None,
    )
    advance()
    return Point(
        "",
        0,
        {TRAIN: job.train_cpu_s, SCORE: job.score_cpu_s},
        {TRAIN: job.train_s, SCORE: job.score_s},
        sum(one.n_bytes for one in job.traffic),
        job.checks,
    )
