"""The HE operations of a match: how many there are, and what each takes in a busy process.

Their sum, divided by the workers, is the floor: the time a match would take if nothing but HE
operations took any.  Unit costs are measured in all worker processes at once, because memory
bandwidth is shared.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from pv4fad.hashing.keyed import N_FUNCTIONS
from pv4fad.he.circuits import FEW_ACCOUNTS, FINAL_PRIMES
from pv4fad.he.equality import POLYNOMIAL_PRIMES, WEIGHT
from pv4fad.he.keys import (
    Decryptor,
    Encryptor,
    Evaluator,
    KeyPair,
    SecretEncryptor,
    generate_keys,
)
from pv4fad.he.ring import Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.match.steps import (
    BlindJob,
    LayersJob,
    OpenJob,
    PlanesJob,
    SharedLayersJob,
    bit_plane,
)
from pv4fad.protocol.parameters import RunParameters
from pv4fad.randomness import secret_residues
from pv4fad.workers import WorkerPool
from pv4fad_bench.harness import Job, Operation

_SECONDS_EACH = 0.06
_MOST_REPEATS = 200

ENCRYPT_PLANE = "encrypt a plane"
MASK = "encode, product with a mask"
ADD = "add"
SQUARE = "square, relinearise, switch down"
PRODUCT = "product, relinearise, switch down"
SWITCH = "switch down"
CONSTANT = "product with a constant"
FINAL_MASK = "encode, product with an atom mask"
FINAL_ADD = "add for an atom"
SHARE_SLOTS = "encode, add a share"
SANITISE = "sanitise"
ENCRYPT_SHARE = "encrypt a share"
DECRYPT = "decrypt"


def at(name: str, n_primes: int) -> str:
    """An operation that costs less at lower levels."""
    return f"{name} ({n_primes} primes)"


class OperationCounter:
    """Counts the operations of jobs as they are done, or as they are to be expected."""

    def __init__(self, parameters: RunParameters) -> None:
        self.counts: Counter[str] = Counter()
        self._top = parameters.match_ring.n_data_primes
        self._halves = parameters.match_ring.degree // parameters.share_ring.degree

    def encrypt_planes(self, job: PlanesJob) -> None:
        self.counts[ENCRYPT_PLANE] += job.code_length

    def sum_layers(self, job: LayersJob) -> None:
        for words in job.words:
            used = int(np.bitwise_or.reduce(words)).bit_count()
            self.layer(int(np.count_nonzero(words)), used)
        for atoms in job.atoms[: len(job.atoms) - job.n_shared]:
            self.polynomial(1, _n_masks(atoms))

    def layer(self, n_accounts: int, n_planes: int) -> None:
        """One layer that has so many accounts, and ones in so many planes."""
        few = n_accounts <= FEW_ACCOUNTS
        self.counts[MASK] += n_accounts if few else n_planes
        self.counts[ADD] += n_accounts * WEIGHT if few else n_planes

    def sum_shared_layers(self, job: SharedLayersJob) -> None:
        for pair in job.pairs:
            self.polynomial(len(pair), sum(_n_masks(layer.atoms) for layer in pair))

    def polynomial(self, n_layers: int, n_masks: int) -> None:
        """One polynomial (`he.equality`) for so many layers, and products with atom masks."""
        self.counts[ADD] += n_layers
        for level in range(POLYNOMIAL_PRIMES, self._top):
            self.counts[at(SWITCH, level + 1)] += 1
        for level in (POLYNOMIAL_PRIMES, POLYNOMIAL_PRIMES - 1, POLYNOMIAL_PRIMES - 2):
            self.counts[at(SQUARE, level)] += 1
        self.counts[at(PRODUCT, POLYNOMIAL_PRIMES - 3)] += 1
        self.counts[at(SWITCH, POLYNOMIAL_PRIMES - 1)] += 1
        self.counts[at(SWITCH, POLYNOMIAL_PRIMES - 2)] += 2
        self.counts[CONSTANT] += 4
        self.counts[FINAL_MASK] += n_masks
        self.counts[FINAL_ADD] += n_masks

    def blind_indicators(self, job: BlindJob) -> None:
        self.blind(len(job.partial_sums[0]), len(job.partial_sums))

    def blind(self, n_atoms: int, n_parts: int) -> None:
        self.counts[FINAL_ADD] += n_atoms * n_parts
        self.counts[SHARE_SLOTS] += n_atoms
        self.counts[SANITISE] += n_atoms
        self.counts[ENCRYPT_SHARE] += n_atoms * self._halves

    def open_indicators(self, job: OpenJob) -> None:
        self.counts[DECRYPT] += len(job.blinded)

    def with_costs(self, unit_s: dict[str, float]) -> tuple[Operation, ...]:
        """All of it, the costliest first."""
        operations = [Operation(name, n, unit_s[name]) for name, n in self.counts.items()]
        return tuple(sorted(operations, key=lambda one: -one.total_s))


def _n_masks(atoms: NDArray[np.int16]) -> int:
    """Atoms that some account has: the others cost nothing."""
    return len(np.unique(atoms[atoms >= 0]))


def expected_operations(parameters: RunParameters) -> OperationCounter:
    """What a match will need, from public sizes: the largest loads that bins are likely to have."""
    expected = OperationCounter(parameters)
    length, n_atoms = parameters.code.length, parameters.sizes.n_atoms
    for bank, n_accounts in parameters.banks.items():
        for plan, chunk in parameters.match_steps(bank):
            n_blocks = len(parameters.blocks_of_chunk(plan, chunk))
            mean = N_FUNCTIONS * n_accounts / plan.layout.n_bins_used
            fullest = 1 / plan.layout.block_size
            n_layers = int(poisson.isf(fullest, mean)) + 1
            n_polynomials = int(poisson.isf(fullest, mean * n_blocks)) + 1
            expected.counts[ENCRYPT_PLANE] += n_blocks * length
            for _ in range(n_blocks * n_layers):
                expected.layer(plan.layout.block_size, length)
            for _ in range(n_polynomials):
                layers = -(-n_blocks * n_layers // n_polynomials)
                expected.polynomial(layers, layers * n_atoms)
            for _ in range(n_blocks):
                expected.blind(n_atoms, 1)
                expected.counts[DECRYPT] += n_atoms
    return expected


@dataclass(frozen=True)
class CalibrationJob:
    """What a worker needs to measure unit costs."""

    match_keys: KeyPair
    share_keys: KeyPair
    flood: Flood


def unit_costs(pool: WorkerPool, parameters: RunParameters) -> dict[str, float]:
    """Seconds of each operation while all workers are busy with the same."""
    job = CalibrationJob(
        generate_keys(parameters.match_ring, relinearisation=True),
        generate_keys(parameters.share_ring, relinearisation=False),
        parameters.bounds["match"].flood,
    )
    return mean_costs(pool, measure_operations, job)


def mean_costs(
    pool: WorkerPool, measure: Callable[[Job], dict[str, float]], job: Job
) -> dict[str, float]:
    """What all workers measure at the same time, on average."""
    found = list(WorkerPool.map(pool, measure, [job] * max(1, pool.n_workers)))
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def measure_operations(job: CalibrationJob) -> dict[str, float]:
    """Seconds of each operation, on average over many."""
    return measured(_operations(job))


def measured(operations: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of each."""
    return {name: _seconds(operation) for name, operation in operations.items()}


def _operations(job: CalibrationJob) -> dict[str, Callable[[], Any]]:
    match, share = Ring.of(job.match_keys.public.ring), Ring.of(job.share_keys.public.ring)
    encryptor, own = SecretEncryptor(job.match_keys.secret), SecretEncryptor(job.share_keys.secret)
    evaluator, decryptor = Evaluator(job.match_keys.public), Decryptor(job.match_keys.secret)
    sanitiser, zero = Sanitiser(job.match_keys.public, job.flood), Encryptor(job.match_keys.public)
    t, top = match.plain_modulus, match.parameters.n_data_primes
    values = secret_residues(t, match.degree)
    mask, half = bit_plane(values, 0), values[: share.degree]
    fresh = encryptor.encrypt(mask)
    levels = {n: evaluator.switch_to(fresh, n) for n in range(FINAL_PRIMES, top + 1)}
    total, final_total = (evaluator.total([levels[n]]) for n in (top, FINAL_PRIMES))
    flooded = match.load(sanitiser.sanitise(zero.zero(FINAL_PRIMES)), 1)
    operations: dict[str, Callable[[], Any]] = {
        ENCRYPT_PLANE: lambda: encryptor.encrypt(mask),
        MASK: lambda: evaluator.times_slots(fresh, mask),
        ADD: lambda: evaluator.add(total, fresh),
        at(PRODUCT, POLYNOMIAL_PRIMES - 3): lambda: evaluator.multiply(
            levels[POLYNOMIAL_PRIMES - 3], levels[POLYNOMIAL_PRIMES - 3]
        ),
        CONSTANT: lambda: evaluator.times_constant(levels[POLYNOMIAL_PRIMES - 2], 12345),
        FINAL_MASK: lambda: evaluator.times_slots(levels[FINAL_PRIMES], values),
        FINAL_ADD: lambda: evaluator.add(final_total, levels[FINAL_PRIMES]),
        SHARE_SLOTS: lambda: evaluator.add_slots(final_total, values),
        SANITISE: lambda: sanitiser.sanitise(evaluator.total([levels[FINAL_PRIMES]])),
        ENCRYPT_SHARE: lambda: own.encrypt(half),
        DECRYPT: lambda: decryptor.decrypt(flooded),
    }
    for level in (POLYNOMIAL_PRIMES, POLYNOMIAL_PRIMES - 1, POLYNOMIAL_PRIMES - 2):
        operations[at(SQUARE, level)] = _on(evaluator.square, levels[level])
    for level in range(POLYNOMIAL_PRIMES - 2, top + 1):
        operations[at(SWITCH, level)] = _on(evaluator.switch_to, levels[level], level - 1)
    return operations


def _on(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def _seconds(operation: Callable[[], Any]) -> float:
    operation()
    start, n = time.perf_counter(), 0
    while n < 3 or (time.perf_counter() - start < _SECONDS_EACH and n < _MOST_REPEATS):
        operation()
        n += 1
    return (time.perf_counter() - start) / n
