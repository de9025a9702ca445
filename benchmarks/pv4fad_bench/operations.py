"""The HE operations of a match: how many there are, and what each takes in a busy process.

Their sum, divided by the workers, is the floor: the time a match would take if nothing but HE
operations took any.  Unit costs are measured in all worker processes at once, because memory
bandwidth is shared.  All numbers follow from public sizes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pv4fad.he.circuits import EQUALITY_PRIMES, FINAL_PRIMES, PLANE_PRIMES
from pv4fad.he.keys import (
    Decryptor,
    Encryptor,
    Evaluator,
    KeyPair,
    SecretEncryptor,
    generate_keys,
)
from pv4fad.he.polynomial import baby_steps, exponents
from pv4fad.he.ring import DISTANCE_RING, TAG_RING
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.match.comparison import N_DIGITS, WORD_BITS
from pv4fad.protocol.match.steps import (
    DistancesJob,
    IndicatorsJob,
    OpenJob,
    PowersJob,
    ValueDigitsJob,
    ValuesJob,
    WordsJob,
)
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.ring_keys import new_keys
from pv4fad.randomness import secret_residues
from pv4fad.workers import WorkerPool
from pv4fad_bench.harness import Job, Operation

_SECONDS_EACH = 0.06
_MOST_REPEATS = 200

ENCRYPT_POWER = "encrypt a power"
COEFFICIENT = "encode, product with coefficients"
GIANT_STEP = "product for a giant step"
RELINEARISE = "product, relinearise a value"
SANITISE_VALUE = "sanitise a value"
ENCRYPT_DIGIT = "encrypt a digit"
DIGIT = "encode, product with a digit"
SANITISE_DISTANCE = "sanitise a distance"
ENCRYPT_BIT = "encrypt a bit"
ENCRYPT_PLANE = "encrypt a plane"
BIT = "encode, product with a bit"
SWITCH = "switch down"
PRODUCT = "product, relinearise, switch down"
SELECT = "product for a class, add"
SHARE_SLOTS = "encode, add a share"
SANITISE = "sanitise an indicator"
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

    def encrypt_powers(self, job: PowersJob) -> None:
        self.powers(job.degree)

    def powers(self, degree: int) -> None:
        self.counts[ENCRYPT_POWER] += len(exponents(degree))

    def mask_values(self, job: ValuesJob) -> None:
        self.values(job.degree)

    def values(self, degree: int) -> None:
        """Both polynomials of a block, `he.polynomial.evaluate`."""
        w = baby_steps(degree)
        for n_coefficients in (degree + 1, degree):
            sections = [
                len(range(start + 1, min(start + w, n_coefficients)))
                for start in range(0, n_coefficients, w)
            ]
            giants = sections[1:]
            self.counts[COEFFICIENT] += sum(sections) + giants.count(0)
            n_products = len(giants) - giants.count(0)
            if n_products:
                self.counts[GIANT_STEP] += n_products - 1
                self.counts[RELINEARISE] += 1
        self.counts[SANITISE_VALUE] += 2

    def encrypt_value_digits(self, job: ValueDigitsJob) -> None:
        self.counts[ENCRYPT_DIGIT] += N_DIGITS + 1

    def mask_distances(self, job: DistancesJob) -> None:
        self.counts[DIGIT] += N_DIGITS
        self.counts[SANITISE_DISTANCE] += 1

    def encrypt_words(self, job: WordsJob) -> None:
        self.words(job.n_classes)

    def words(self, n_classes: int) -> None:
        self.counts[ENCRYPT_BIT] += WORD_BITS
        self.counts[ENCRYPT_PLANE] += n_classes

    def blind_indicators(self, job: IndicatorsJob) -> None:
        self.indicators(job.n_classes)

    def indicators(self, n_classes: int) -> None:
        self.counts[BIT] += WORD_BITS
        if self._top > EQUALITY_PRIMES:
            self.counts[SWITCH] += 1
        for level in (EQUALITY_PRIMES, EQUALITY_PRIMES - 1):
            self.counts[at(PRODUCT, level)] += 1
        self.counts[at(PRODUCT, PLANE_PRIMES)] += n_classes
        self.counts[SELECT] += n_classes**2
        self.counts[SHARE_SLOTS] += n_classes
        self.counts[SANITISE] += n_classes
        self.counts[ENCRYPT_SHARE] += n_classes * self._halves

    def open_block(self, job: OpenJob) -> None:
        self.counts[DECRYPT] += len(job.ciphertexts)

    def with_costs(self, unit_s: dict[str, float]) -> tuple[Operation, ...]:
        """All of it, the costliest first."""
        operations = [Operation(name, n, unit_s[name]) for name, n in self.counts.items()]
        return tuple(sorted(operations, key=lambda one: -one.total_s))


def expected_operations(parameters: RunParameters) -> OperationCounter:
    """What a match will need."""
    expected = OperationCounter(parameters)
    n_classes = parameters.sizes.n_atoms
    for plan in parameters.tables:
        degree = parameters.largest_load(plan)
        for block in range(plan.layout.n_blocks * len(plan.banks)):
            if block < plan.layout.n_blocks:  # the banks of a table share them
                expected.powers(degree)
            expected.values(degree)
            expected.counts[ENCRYPT_DIGIT] += N_DIGITS + 1
            expected.counts[DIGIT] += N_DIGITS
            expected.counts[SANITISE_DISTANCE] += 1
            expected.words(n_classes)
            expected.indicators(n_classes)
            expected.counts[DECRYPT] += 3 + n_classes
    return expected


@dataclass(frozen=True)
class CalibrationJob:
    """What a worker needs to measure unit costs."""

    keys: dict[str, KeyPair]  # of the payment network's rings
    share_keys: KeyPair
    floods: dict[str, Flood]


def unit_costs(pool: WorkerPool, parameters: RunParameters) -> dict[str, float]:
    """Seconds of each operation while all workers are busy with the same."""
    job = CalibrationJob(
        dict(new_keys(parameters)),
        generate_keys(parameters.share_ring, "bench", relinearisation=False),
        {name: bound.flood for name, bound in parameters.bounds.items()},
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
    return _of_tags(job) | _of_distances(job) | _of_indicators(job)


def _of_tags(job: CalibrationJob) -> dict[str, Callable[[], Any]]:
    keys = job.keys["tags"]
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    sanitiser = Sanitiser(keys.public, job.floods["values"])
    values = secret_residues(TAG_RING.plain_modulus, TAG_RING.degree)
    fresh = encryptor.encrypt(values)
    return {
        ENCRYPT_POWER: lambda: encryptor.encrypt(values),
        COEFFICIENT: lambda: evaluator.times_slots(fresh, values),
        GIANT_STEP: lambda: evaluator.product(fresh, fresh),
        RELINEARISE: lambda: evaluator.sum_of_products([(fresh, fresh)]),
        SANITISE_VALUE: lambda: sanitiser.sanitise(evaluator.total([fresh])),
    }


def _of_distances(job: CalibrationJob) -> dict[str, Callable[[], Any]]:
    keys = job.keys["distances"]
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    sanitiser = Sanitiser(keys.public, job.floods["distances"])
    values = secret_residues(DISTANCE_RING.plain_modulus, DISTANCE_RING.degree)
    fresh = encryptor.encrypt(values)
    return {
        ENCRYPT_DIGIT: lambda: encryptor.encrypt(values),
        DIGIT: lambda: evaluator.times_slots(fresh, values),
        SANITISE_DISTANCE: lambda: sanitiser.sanitise(evaluator.total([fresh])),
    }


def _of_indicators(job: CalibrationJob) -> dict[str, Callable[[], Any]]:
    keys = job.keys["match"]
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    own, decryptor = SecretEncryptor(job.share_keys.secret), Decryptor(keys.secret)
    sanitiser, public = Sanitiser(keys.public, job.floods["indicators"]), Encryptor(keys.public)
    ring = evaluator.ring
    top, values = ring.parameters.n_data_primes, secret_residues(ring.plain_modulus, ring.degree)
    bits, half = values & np.uint64(1), values[: own.ring.degree]
    fresh = encryptor.encrypt(bits)
    levels = {n: evaluator.switch_to(fresh, n) for n in range(FINAL_PRIMES, top + 1)}
    mask, total = evaluator.prepare(values, PLANE_PRIMES), evaluator.total([levels[PLANE_PRIMES]])
    flooded = ring.load(sanitiser.sanitise(public.zero(FINAL_PRIMES)), 1)
    final = evaluator.total([levels[FINAL_PRIMES]])
    operations: dict[str, Callable[[], Any]] = {
        ENCRYPT_BIT: lambda: encryptor.encrypt(bits),
        ENCRYPT_PLANE: lambda: evaluator.add_slots(public.zero(PLANE_PRIMES), bits),
        BIT: lambda: evaluator.times_slots(fresh, bits),
        SWITCH: lambda: evaluator.switch_to(fresh, top - 1),
        SELECT: lambda: evaluator.add_prepared(total, levels[PLANE_PRIMES], mask),
        SHARE_SLOTS: lambda: evaluator.add_slots(final, values),
        SANITISE: lambda: sanitiser.sanitise(evaluator.total([levels[FINAL_PRIMES]])),
        ENCRYPT_SHARE: lambda: own.encrypt(half),
        DECRYPT: lambda: decryptor.decrypt(flooded),
    }
    for level in (EQUALITY_PRIMES, EQUALITY_PRIMES - 1, PLANE_PRIMES):
        operations[at(PRODUCT, level)] = _on(evaluator.multiply, levels[level], levels[level])
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
