"""The HE operations of scoring: how many there are, and what each takes in a busy process.

As `operations` for the match: their sum, divided by the workers, is the floor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pv4fad.he.circuits import FINAL_PRIMES
from pv4fad.he.keys import Decryptor, Encryptor, Evaluator, KeyPair, SecretEncryptor, generate_keys
from pv4fad.he.ring import Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.score.plan import ScoringPlan
from pv4fad.protocol.score.steps import (
    LabelsJob,
    OpenSetsJob,
    QueryJob,
    ReplyJob,
    SealedQueryJob,
    SetSharesJob,
)
from pv4fad.randomness import secret_residues
from pv4fad.workers import WorkerPool
from pv4fad_bench.harness import Operation
from pv4fad_bench.operations import mean_costs, measured

GROUP_MASK = "encode, transform the mask of a group"
LABEL_PRODUCT = "product with a mask, add"
TOP_PRODUCT = "encode, product with slots, add"
SWITCH = "load, switch down a share"
FINAL_PRODUCT = "encode, product with slots, add (final)"
ADD_SLOTS = "encode, add slots"
FRESH_ZERO = "encrypt zero"
SANITISE = "sanitise"
DECRYPT = "decrypt"
ENCRYPT_LABEL = "encrypt a label share"


class ScoringCounter:
    """Counts the operations of jobs as they are done, or as they are to be expected."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def set_shares(self, job: SetSharesJob) -> None:
        self.counts[ADD_SLOTS] += len(job.sets)
        self.counts[SANITISE] += len(job.sets)

    def open_sets(self, job: OpenSetsJob) -> None:
        self.counts[DECRYPT] += len(job.blinded)

    def encrypt_label_shares(self, job: LabelsJob) -> None:
        self.counts[ENCRYPT_LABEL] += len(job.shares)

    def sealed_queries(self, job: SealedQueryJob) -> None:
        for reached in job.reached:
            n_groups = int((np.unique(reached) >= 0).sum())
            self.sealed_layer(n_groups, job.set_index.shape[1], len(job.base.sets))

    def sealed_layer(self, n_groups: int, sets_per_group: int, n_sets: int) -> None:
        """One layer of one block that has transactions in so many groups."""
        self.counts[GROUP_MASK] += n_groups
        self.counts[LABEL_PRODUCT] += n_groups * (sets_per_group + 1)
        self.counts[TOP_PRODUCT] += 2 * n_sets
        self.counts[ADD_SLOTS] += n_sets + 1
        self.counts[SANITISE] += n_sets + 1

    def bit_queries(self, job: QueryJob) -> None:
        for coefficients in job.votes_sets:
            self.bit_layer(len(job.sets), int(coefficients.any(axis=1).sum()))

    def bit_layer(self, n_atoms: int, n_asked: int) -> None:
        """One layer, by itself, of one block in which so many atoms matter."""
        self.counts[SWITCH] += n_atoms
        self.counts[FRESH_ZERO] += 1
        self.counts[FINAL_PRODUCT] += n_asked
        self.counts[ADD_SLOTS] += 1
        self.counts[SANITISE] += 1

    def answer_queries(self, job: ReplyJob) -> None:
        self.counts[DECRYPT] += sum(map(len, job.ciphertexts))

    def with_costs(self, unit_s: dict[str, float]) -> tuple[Operation, ...]:
        """All of it, the costliest first."""
        operations = [Operation(name, n, unit_s[name]) for name, n in self.counts.items()]
        return tuple(sorted(operations, key=lambda one: -one.total_s))


def expected_scoring(parameters: RunParameters, n_layers: int) -> ScoringCounter:
    """What so many layers of all tables will need at most: every group in every layer."""
    expected, sizes, scoring = ScoringCounter(), parameters.sizes, ScoringPlan(parameters)
    for plan in parameters.tables:
        for _ in range(scoring.n_share_blocks(plan) * n_layers * len(plan.banks)):
            if parameters.mode == "sealed":
                expected.sealed_layer(sizes.n_groups, sizes.n_sets, sizes.n_distinct_sets)
            else:
                expected.bit_layer(sizes.n_atoms, sizes.n_atoms)
            expected.counts[DECRYPT] += scoring.queries_per_slot
    if parameters.mode == "sealed":
        expected.counts[ENCRYPT_LABEL] += sizes.n_leaves * len(parameters.banks)
    return expected


@dataclass(frozen=True)
class ScoringCalibration:
    """What a worker needs to measure unit costs."""

    keys: KeyPair
    flood: Flood


def scoring_costs(pool: WorkerPool, parameters: RunParameters) -> dict[str, float]:
    """Seconds of each operation while all workers are busy with the same."""
    keys = generate_keys(parameters.share_ring, "bench", relinearisation=False)
    flood = parameters.bounds[ScoringPlan(parameters).flood_circuit].flood
    return mean_costs(pool, measure_scoring, ScoringCalibration(keys, flood))


def measure_scoring(job: ScoringCalibration) -> dict[str, float]:
    """Seconds of each operation, on average over many."""
    return measured(_operations(job))


def _operations(job: ScoringCalibration) -> dict[str, Callable[[], Any]]:
    public, secret = job.keys.public, job.keys.secret
    evaluator, encryptor, own = Evaluator(public), Encryptor(public), SecretEncryptor(secret)
    sanitiser, decryptor = Sanitiser(public, job.flood), Decryptor(secret)
    ring = Ring.of(public.ring)
    top = ring.parameters.n_data_primes
    values = secret_residues(ring.plain_modulus, ring.degree)
    mask = (values & np.uint64(1)).astype(np.uint64)
    fresh, prepared = own.encrypt(values), evaluator.prepare(mask, top)
    stored = ring.dump(fresh)
    final = evaluator.switch_to(fresh, FINAL_PRIMES)
    total, final_total = evaluator.total([fresh]), evaluator.total([final])
    flooded = ring.load(sanitiser.sanitise(encryptor.zero(top)), 1)
    source, goal = (fresh, total) if job.flood.n_primes == top else (final, final_total)
    return {
        GROUP_MASK: lambda: evaluator.prepare(mask, top),
        LABEL_PRODUCT: lambda: evaluator.add_prepared(total, fresh, prepared),
        TOP_PRODUCT: lambda: evaluator.add_products(total, [(fresh, values)]),
        SWITCH: lambda: evaluator.switch_to(ring.load(stored, top), FINAL_PRIMES),
        FINAL_PRODUCT: lambda: evaluator.add_products(final_total, [(final, values)]),
        ADD_SLOTS: lambda: evaluator.add_slots(goal, values),
        FRESH_ZERO: lambda: encryptor.zero(FINAL_PRIMES),
        SANITISE: lambda: sanitiser.sanitise(evaluator.total([source])),
        DECRYPT: lambda: decryptor.decrypt(flooded),
        ENCRYPT_LABEL: lambda: own.encrypt(values),
    }
