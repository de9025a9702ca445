"""`pv4fad bench score` and `pv4fad bench online`: private scoring, every vote checked.

A model is trained first, off the clock, with the parties of `pv4fad bench train`; then its
payments are scored as `pv4fad score` does it, and every vote is compared with a trusted third
party's.  What a sealed model needs once, before its first batch, is on the clock as its own phase.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pv4fad.bench.harness import (
    BenchReport,
    MeasuredPool,
    Phase,
    Progress,
    Tap,
    TrafficMeter,
    peak_memory,
)
from pv4fad.bench.scoring_operations import ScoringCounter, expected_scoring, scoring_costs
from pv4fad.bench.workload import Workload
from pv4fad.federation import Federation
from pv4fad.parties.scoring_tables import ScoringInput
from pv4fad.protocol.parameters import Mode, RunParameters
from pv4fad.protocol.score import (
    answer_queries,
    encrypt_label_shares,
    open_sets,
    released_queries,
    sealed_queries,
    set_shares,
)
from pv4fad.protocol.scoring_plan import ScoringPlan
from pv4fad.protocol.wire import Message

LAYOUT = "lay out the batch"
MESSAGES = "messages and stores"
ONCE = "once per table and model"
PHASES: Mapping[Callable[..., Any], str] = {
    set_shares: ONCE,
    open_sets: ONCE,
    encrypt_label_shares: ONCE,
    sealed_queries: "queries",
    released_queries: "queries",
    answer_queries: "answers",
}
_USUAL_OVERHEAD = 1.2  # for the estimate


def bench_score(
    workload: Workload,
    mode: Mode,
    *,
    n_transactions: int,
    per_account: int,
    n_workers: int | None,
    progress: Progress,
) -> BenchReport:
    """Score one batch and check every vote."""
    payments = workload.payments(n_transactions, per_account)
    parameters = workload.parameters(mode)
    with MeasuredPool(n_workers, PHASES, MESSAGES) as pool:
        federation, trained_s = train_off_the_clock(workload, parameters, pool)
        n_cores, before = max(1, pool.n_workers), scoring_costs(pool, parameters)
        expected = expected_scoring(parameters, per_account).with_costs(before)
        progress.begin(
            _USUAL_OVERHEAD * sum(one.total_s for one in expected) / n_cores,
            n_queries(parameters, per_account),
        )
        counter, traffic = ScoringCounter(), TrafficMeter()
        pool.taps = count_scoring_operations(counter)

        def observe(message: Message, n_bytes: int) -> None:
            traffic(message, n_bytes)
            if message.kind == "score-query":
                progress.advance()

        pool.stopwatch.switch(LAYOUT)
        votes = federation.score(parameters.run_id, payments, observe)
        pool.stopwatch.switch(None)
        after = scoring_costs(pool, parameters)
        operations = counter.with_costs({name: (before[name] + after[name]) / 2 for name in before})
        floor_s = sum(one.total_s for one in operations) / n_cores
        (plan,) = parameters.tables
        return BenchReport(
            benchmark="score",
            workload=asdict(workload)
            | {
                "mode": mode,
                "transactions": n_transactions,
                "per_account": per_account,
                "red_leaves": parameters.sizes.n_leaves,
                "workers": pool.n_workers,
            },
            phases=pool.stopwatch.phases,
            traffic=traffic.traffic(),
            checks=vote_check(workload, payments, votes),
            figures={
                "blocks": ScoringPlan(parameters).n_share_blocks(plan),
                "transactions_per_s": n_transactions / pool.stopwatch.wall_s,
                "training_s_off_the_clock": trained_s,
                "floor_s": floor_s,
                "overhead_ratio": pool.stopwatch.wall_s / floor_s,
            },
            peak_bytes=peak_memory(pool.usage),
            operations=operations,
        )


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch: every account may have one payment in it, at the same cost."""

    accounts: int
    blocks: int
    transactions: int
    wall_s: float
    cpu_s: float
    n_bytes: int


def bench_online(
    workloads: list[Workload], mode: Mode, n_workers: int | None, progress: Progress
) -> BenchReport:
    """One layer over all blocks, for several numbers of accounts: a single payment, then all."""
    found: list[MicroBatch] = []
    checks: dict[str, bool] = {}
    phases: dict[str, Phase] = {}
    peak: dict[str, int] = {}
    progress.begin(sum(_seconds_online(one) for one in workloads), 2 * len(workloads))
    for workload in workloads:
        parameters = workload.parameters(mode)
        with MeasuredPool(n_workers) as pool:
            federation, _ = train_off_the_clock(workload, parameters, pool)
            federation.score(parameters.run_id, workload.payments(1, 1))  # what is needed once
            for n_transactions in (1, workload.pns_accounts):
                payments, traffic = workload.payments(n_transactions, 1), TrafficMeter()
                name = f"{workload.pns_accounts:,} accounts, {n_transactions:,} transactions"
                pool.stopwatch.switch(name)
                votes = federation.score(parameters.run_id, payments, traffic)
                pool.stopwatch.switch(None)
                phase = phases[name] = pool.stopwatch.phases[name]
                found.append(
                    MicroBatch(
                        workload.pns_accounts,
                        ScoringPlan(parameters).n_share_blocks(parameters.tables[0]),
                        n_transactions,
                        phase.wall_s,
                        phase.cpu_s,
                        sum(one.n_bytes for one in traffic.traffic()),
                    )
                )
                checks |= {
                    f"{name}: {claim}": holds
                    for claim, holds in vote_check(workload, payments, votes).items()
                }
                progress.advance()
            peak = peak_memory(pool.usage)
    return BenchReport(
        benchmark="online",
        workload=asdict(workloads[-1]) | {"mode": mode, "workers": pool.n_workers},
        phases=phases,
        traffic=(),
        checks=checks,
        figures={"micro_batches": [asdict(one) for one in found]},
        peak_bytes=peak,
    )


def _seconds_online(workload: Workload) -> float:
    """About how long the training before takes: for the estimate, which says 'about'."""
    return 5 + workload.pns_accounts / 3000


def train_off_the_clock(
    workload: Workload, parameters: RunParameters, pool: MeasuredPool
) -> tuple[Federation, float]:
    """Parties with a model, and how long that took."""
    start = time.perf_counter()
    federation = workload.federation(pool)
    federation.train(parameters, workload.training_input)
    pool.restart_clock()
    return federation, time.perf_counter() - start


def count_scoring_operations(counter: ScoringCounter) -> dict[Callable[..., Any], Tap]:
    """Taps that count the operations of every job of a batch."""
    return {
        set_shares: lambda job, _: counter.set_shares(job),
        open_sets: lambda job, _: counter.open_sets(job),
        encrypt_label_shares: lambda job, _: counter.encrypt_label_shares(job),
        sealed_queries: lambda job, _: counter.sealed_queries(job),
        released_queries: lambda job, _: counter.released_queries(job),
        answer_queries: lambda job, _: counter.answer_queries(job),
    }


def n_queries(parameters: RunParameters, n_layers: int) -> int:
    """Messages with queries in a batch."""
    scoring = ScoringPlan(parameters)
    return sum(len(scoring.layer_chunks(plan, n_layers)) for plan in parameters.tables)


def vote_check(
    workload: Workload, payments: ScoringInput, votes: np.ndarray[Any, Any]
) -> dict[str, bool]:
    """Every vote total, compared."""
    equal = bool(np.array_equal(votes, workload.votes(payments)))
    return {f"all {len(votes):,} vote totals equal those of a trusted third party": equal}
