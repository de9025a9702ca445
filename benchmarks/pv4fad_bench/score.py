"""`pv4fad bench score`: one batch of payments, every bit or vote checked.

A model is trained first, off the clock, with the parties of `pv4fad bench train`; then the banks
are asked about payments as `pv4fad score` does it, and every answer is compared with a trusted
third party's.  What a sealed model needs once, before its first batch, is on the clock as its own
phase.  What the payment network computes for itself (features, local model) is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pv4fad.lead.federation import Federation
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.score.plan import ScoringPlan
from pv4fad.protocol.score.steps import (
    answer_queries,
    bit_queries,
    encrypt_label_shares,
    open_sets,
    sealed_queries,
    set_shares,
)
from pv4fad.protocol.wire import Header
from pv4fad.workers import Workers
from pv4fad_bench.estimates import score_seconds
from pv4fad_bench.harness import (
    BenchReport,
    MeasuredPool,
    Progress,
    TrafficMeter,
    peak_memory,
)
from pv4fad_bench.train import described, training_checks
from pv4fad_bench.workload import Workload

LAYOUT = "lay out the batch"
MESSAGES = "messages and stores"
ONCE = "once per table and model"
PHASES: Mapping[Callable[..., Any], str] = {
    set_shares: ONCE,
    open_sets: ONCE,
    encrypt_label_shares: ONCE,
    sealed_queries: "queries",
    bit_queries: "queries",
    answer_queries: "answers",
}


def bench_score(
    workload: Workload,
    *,
    n_transactions: int,
    per_account: int,
    workers: Workers,
    progress: Progress,
) -> BenchReport:
    """Score one batch and check every answer."""
    batch = workload.batch(n_transactions, per_account)
    parameters, n_layers = workload.parameters(), workload.n_layers(per_account)
    with MeasuredPool(workers, PHASES, MESSAGES) as pool:
        federation, trained_s = train_off_the_clock(workload, parameters, pool)
        expected_s = score_seconds(parameters, n_layers) / max(1, pool.n_workers)
        progress.begin(expected_s, n_queries(parameters, n_layers))
        traffic = TrafficMeter()

        def observe(message: Header, n_bytes: int) -> None:
            traffic(message, n_bytes)
            if message.kind == "score-query":
                progress.advance()

        pool.stopwatch.switch(LAYOUT)
        batch.score(federation, parameters.run_id, observe)
        pool.stopwatch.switch(None)
        floor_s = pool.floor_s()
        (plan,) = parameters.tables
        return BenchReport(
            benchmark="score",
            workload=described(workload, parameters)
            | {
                "transactions": n_transactions,
                "per_account": per_account,
                "workers": pool.n_workers,
            },
            phases=pool.stopwatch.phases,
            traffic=traffic.traffic(),
            checks=training_checks(workload, parameters, federation) | batch.checks(),
            figures={
                "blocks": ScoringPlan(parameters).n_share_blocks(plan),
                "layers": n_layers,
                "transactions_per_s": n_transactions / pool.stopwatch.wall_s,
                "training_s_off_the_clock": trained_s,
                "floor_s": floor_s,
                "overhead_ratio": pool.stopwatch.wall_s / floor_s,
            },
            peak_bytes=peak_memory(pool.usage),
            operations=pool.operations,
        )


def train_off_the_clock(
    workload: Workload, parameters: RunParameters, pool: MeasuredPool
) -> tuple[Federation, float]:
    """Parties with a model, and how long that took."""
    start = time.perf_counter()
    federation = workload.federation(pool)
    federation.train(parameters, workload.training_input)
    pool.restart_clock()
    return federation, time.perf_counter() - start


def n_queries(parameters: RunParameters, n_layers: int) -> int:
    """Messages with queries in a batch; in decisions a round, one layer, is by itself."""
    scoring, tables = ScoringPlan(parameters), parameters.tables
    if parameters.mode != "sealed":
        return n_layers * len(tables)
    return sum(len(scoring.layer_chunks(plan, n_layers)) for plan in tables)
