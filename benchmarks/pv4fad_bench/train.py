"""`pv4fad bench train`: private training as the parties run it, equal to a trusted third party.

Without noise, so that everything can be compared: counts before and after they are opened to the
payment network, of the paper's model counts and labels.  The phases are those of `pv4fad train`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.lead.federation import Federation
from pv4fad.protocol.compare.state import BankLabelShare, LabelShare
from pv4fad.protocol.count.state import BankSums, OwnSums
from pv4fad.protocol.order import messages_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Header
from pv4fad.run.meter import Meter
from pv4fad.store.records import stored
from pv4fad.workers import Workers
from pv4fad_bench.estimates import match_seconds
from pv4fad_bench.harness import (
    BenchReport,
    MeasuredPool,
    Phase,
    Progress,
    Stopwatch,
    TrafficMeter,
    peak_memory,
)
from pv4fad_bench.paper_workload import PaperWorkload
from pv4fad_bench.workload import Workload

_AFTER_MATCH = ("count", "compare", "labels")
_OTHER_PHASES = 1.5  # times the match, for the estimate: what they may take at most


def bench_train(workload: Workload, workers: Workers, progress: Progress) -> BenchReport:
    """Train and compare with the trusted third party."""
    parameters = workload.parameters()
    with MeasuredPool(workers) as pool:
        pool.start_workers(parameters)
        match_s = match_seconds(parameters) / max(1, pool.n_workers)
        progress.begin(_OTHER_PHASES * match_s, sum(messages_of(parameters).values()))
        traffic, meter = TrafficMeter(), PhaseMeter(pool.stopwatch)

        def observe(message: Header, n_bytes: int) -> None:
            traffic(message, n_bytes)
            meter(message, n_bytes)
            progress.advance()

        federation = workload.federation(pool)
        meter.expect_training(parameters)
        federation.train(parameters, workload.training_input, observe)
        pool.stopwatch.switch(None)
        return BenchReport(
            benchmark="train",
            workload=described(workload, parameters) | {"workers": pool.n_workers},
            phases=pool.stopwatch.phases,
            traffic=traffic.traffic(),
            checks=training_checks(workload, parameters, federation),
            figures=_figures(parameters, pool.stopwatch.phases),
            peak_bytes=peak_memory(pool.usage),
        )


class PhaseMeter(Meter):
    """Knows which phase the work on a message belongs to; the stopwatch adds CPU seconds."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self._stopwatch = stopwatch

    def switch_to(self, phase: str | None) -> None:
        super().switch_to(phase)
        self._stopwatch.switch(phase)


def _figures(parameters: RunParameters, phases: dict[str, Phase]) -> dict[str, float | bool]:
    match_s = phases["match"].wall_s
    after_s = sum(phase.wall_s for name, phase in phases.items() if name in _AFTER_MATCH)
    return {
        "after_match_s": after_s,
        "after_match_to_match_ratio": after_s / match_s,
        "log2_false_match": parameters.log2_false_match,
        "log2_distance": parameters.log2_distance,
    }


def described(workload: Workload, parameters: RunParameters) -> dict[str, Any]:
    """What a report says about its work."""
    sizes = parameters.sizes
    paper = isinstance(workload, PaperWorkload)
    counted = {"red_leaves": sizes.n_leaves} if paper else {"counts": sizes.n_sums}
    return {"model": "paper" if paper else "evidence", **asdict(workload), **counted}


def training_checks(
    workload: Workload, parameters: RunParameters, federation: Federation
) -> dict[str, bool]:
    """Counts, put together from the parties' shares, and what training ends with."""
    truth, network = workload.true_counts(), federation.payment_network
    run_id, t = parameters.run_id, np.uint64(parameters.plain_modulus)
    total = stored(network.store, run_id, OwnSums).p
    for bank in federation.banks:
        q = stored(bank.store, run_id, BankSums).q
        total = (total + t - q.reshape(total.shape)) % t
    checks = {_claim(truth.size, "counts"): np.array_equal(parameters.signed(total), truth)}
    if isinstance(workload, PaperWorkload):
        labels = _labels(parameters, federation)
        equal = np.array_equal(labels, workload.true_labels().ravel())
        return checks | {_claim(labels.size, "labels"): equal}
    opened = network.counts(parameters.run_id)
    return checks | {_claim(opened.size, "opened counts"): np.array_equal(opened, truth)}


def _claim(n: int, what: str) -> str:
    return f"all {n:,} {what} equal those of a trusted third party"


def _labels(parameters: RunParameters, federation: Federation) -> NDArray[np.uint64]:
    """Of the red leaves, sealed or released."""
    network, bank = federation.payment_network, federation.banks[0]
    run_id = parameters.run_id
    if parameters.mode == "released":
        return network.labels(run_id).astype(np.uint64)
    shares = stored(network.store, run_id, LabelShare).p
    both: NDArray[np.uint64] = shares + stored(bank.store, run_id, BankLabelShare).b
    return both % np.uint64(parameters.plain_modulus)
