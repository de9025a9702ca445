"""One whole job on generated data: train, then score, measured from end to end and checked.

phases    of training, as `pv4fad train` has them, and `score`
parties   CPU seconds of each, its jobs with them; those of the transport belong to nobody
floor     the HE operations of match, count and score, timed inside their jobs, divided by the
          workers
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pv4fad.protocol.count.steps import add_up, masked_products
from pv4fad.protocol.match.messages import BlindedIndicators
from pv4fad.protocol.score.messages import ScoreReply
from pv4fad.protocol.wire import Header
from pv4fad.workers import Workers
from pv4fad_bench.harness import (
    MeasuredPool,
    PartyClock,
    Phase,
    Traffic,
    TrafficMeter,
    forget_peak_memory,
    job_name,
    peak_memory,
)
from pv4fad_bench.match import PHASES as MATCH_JOBS
from pv4fad_bench.score import PHASES as SCORE_JOBS
from pv4fad_bench.train import PhaseMeter, training_checks
from pv4fad_bench.workload import Workload

SCORE = "score"
COUNT_JOBS: tuple[Callable[..., Any], ...] = (masked_products, add_up)


@dataclass(frozen=True)
class WholeJob:
    """What training and scoring took."""

    phases: dict[str, Phase]
    party_cpu_s: dict[str, float]
    traffic: tuple[Traffic, ...]
    peak_bytes: dict[str, int]
    floor_s: float
    checks: dict[str, bool]

    @property
    def train_s(self) -> float:
        return sum(phase.wall_s for name, phase in self.phases.items() if name != SCORE)

    @property
    def score_s(self) -> float:
        return self.phases[SCORE].wall_s

    @property
    def train_cpu_s(self) -> float:
        return sum(phase.cpu_s for name, phase in self.phases.items() if name != SCORE)

    @property
    def score_cpu_s(self) -> float:
        return self.phases[SCORE].cpu_s

    @property
    def overhead_ratio(self) -> float:
        """Wall time of match, count and score against their floor; not below 1.

        Count with them: the last answer of a match is opened when the count has begun.
        """
        return sum(self.phases[name].wall_s for name in ("match", "count", SCORE)) / self.floor_s

    def bytes_by_direction(self) -> dict[str, int]:
        """Bytes from each party to each other."""
        found: dict[str, int] = {}
        for one in self.traffic:
            direction = " → ".join(
                party.removeprefix("payment-") for party in (one.sender, one.receiver)
            )
            found[direction] = found.get(direction, 0) + one.n_bytes
        return found


def run_whole_job(
    workload: Workload,
    *,
    n_transactions: int,
    per_account: int,
    workers: Workers,
    advance: Callable[[], None],
) -> WholeJob:
    """Train and score; `advance` is called `n_steps` times."""
    forget_peak_memory()
    parameters, batch = workload.parameters(), workload.batch(n_transactions, per_account)
    with MeasuredPool(workers) as pool:
        pool.start_workers(parameters)
        traffic, parties = TrafficMeter(), PartyClock(pool.usage)
        meter = PhaseMeter(pool.stopwatch)

        def observe(message: Header, n_bytes: int) -> None:
            traffic(message, n_bytes)
            if message.kind in (BlindedIndicators.kind, ScoreReply.kind):
                advance()

        def observe_training(message: Header, n_bytes: int) -> None:
            observe(message, n_bytes)
            meter(message, n_bytes)

        federation = workload.federation(pool)
        parties.watch(federation.payment_network, "propose", "score", "handle")
        for party in (*federation.banks, federation.aggregator):
            parties.watch(party, "handle")
        meter.expect_training(parameters)
        federation.train(parameters, workload.training_input, observe_training)
        pool.stopwatch.switch(SCORE)
        batch.score(federation, parameters.run_id, observe)
        pool.stopwatch.switch(None)
        return WholeJob(
            pool.stopwatch.phases,
            dict(parties.cpu_s),
            traffic.traffic(),
            peak_memory(pool.usage),
            pool.floor_s(*map(job_name, (*MATCH_JOBS, *COUNT_JOBS, *SCORE_JOBS))),
            training_checks(workload, parameters, federation) | batch.checks(),
        )
