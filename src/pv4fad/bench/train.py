"""`pv4fad bench train`: private training as the parties run it, equal to a trusted third party.

Without noise, so that every count and every label can be compared.  The phases are those of
`pv4fad train`.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from pv4fad.bench.harness import (
    BenchReport,
    MeasuredPool,
    Phase,
    Progress,
    Stopwatch,
    TrafficMeter,
    peak_memory,
)
from pv4fad.bench.operations import expected_operations, unit_costs
from pv4fad.bench.workload import Workload
from pv4fad.federation import Federation
from pv4fad.parties.party import Party, RunRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Message
from pv4fad.runs.meter import Meter, messages_of_phases

_OTHER_PHASES = 1.5  # times the match, for the estimate: what they may take at most


def bench_train(workload: Workload, n_workers: int | None, progress: Progress) -> BenchReport:
    """Train and compare with the trusted third party."""
    parameters = workload.parameters()
    with MeasuredPool(n_workers) as pool:
        expected = expected_operations(parameters).with_costs(unit_costs(pool, parameters))
        match_s = sum(one.total_s for one in expected) / max(1, pool.n_workers)
        progress.begin(_OTHER_PHASES * match_s, sum(messages_of_phases(parameters).values()))
        traffic, meter = TrafficMeter(), PhaseMeter(parameters, pool.stopwatch)

        def observe(message: Message, n_bytes: int) -> None:
            traffic(message, n_bytes)
            meter(message, n_bytes)
            progress.advance()

        federation = workload.federation(pool)
        pool.stopwatch.switch("propose")
        federation.train(parameters, workload.training_input, observe)
        pool.stopwatch.switch(None)
        return BenchReport(
            benchmark="train",
            workload=asdict(workload)
            | {"workers": pool.n_workers, "red_leaves": parameters.sizes.n_leaves},
            phases=pool.stopwatch.phases,
            traffic=traffic.traffic(),
            checks=training_checks(workload, parameters, federation),
            figures=_figures(parameters, pool.stopwatch.phases),
            peak_bytes=peak_memory(pool.usage),
        )


class PhaseMeter(Meter):
    """Knows which phase the work on a message belongs to; the stopwatch adds CPU seconds."""

    def __init__(self, parameters: RunParameters, stopwatch: Stopwatch) -> None:
        super().__init__(parameters, report=lambda _: None)
        self._stopwatch = stopwatch

    def _switch_to(self, phase: str | None) -> None:
        super()._switch_to(phase)
        self._stopwatch.switch(phase)


def _figures(parameters: RunParameters, phases: dict[str, Phase]) -> dict[str, float | bool]:
    match_s = phases["match"].wall_s
    after_s = sum(phases[name].wall_s for name in ("count", "compare", "labels"))
    return {
        "after_match_s": after_s,
        "after_match_to_match_ratio": after_s / match_s,
        "log2_false_match": parameters.log2_false_match,
        "log2_distance": parameters.log2_distance,
    }


def training_checks(
    workload: Workload, parameters: RunParameters, federation: Federation
) -> dict[str, bool]:
    """Counts and labels, put together from the parties' shares."""
    t, shape = parameters.plain_modulus, (parameters.sizes.n_groups, -1)
    network, banks = federation.payment_network, federation.banks
    counts = _record(network, parameters, "sums")["p"].astype(np.int64).reshape(shape)
    for bank in banks:
        counts = counts - _record(bank, parameters, "sums")["q"].astype(np.int64).reshape(shape)
    counts = (counts + t // 2) % t - t // 2
    if parameters.mode == "sealed":
        labels = _record(network, parameters, "label share")["p"].astype(np.int64)
        labels = (labels + _record(banks[0], parameters, "label share")["b"].astype(np.int64)) % t
    else:
        labels = _record(network, parameters, "labels")["labels"].astype(np.int64)
    truth = workload.truth.counts(workload.pairs)
    return {
        f"all {counts.size:,} counts equal those of a trusted third party": bool(
            np.array_equal(counts, truth[:, :-1])
        ),
        f"all {labels.size:,} labels equal those of a trusted third party": bool(
            np.array_equal(labels.reshape(shape), workload.truth.red_labels(truth))
        ),
    }


def _record(party: Party, parameters: RunParameters, name: str) -> dict[str, np.ndarray]:
    with party.store.transaction() as tx:
        return RunRecords(tx, parameters.run_id).get_arrays(name)
