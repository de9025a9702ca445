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

from pv4fad.he.circuits import FINAL_PRIMES
from pv4fad.he.keys import (
    Decryptor,
    Encryptor,
    Evaluator,
    KeyPair,
    SecretEncryptor,
    generate_keys,
)
from pv4fad.he.polynomial import baby_steps, n_powers
from pv4fad.he.ring import DISTANCE_RING, TAG_RING
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.he.strips import Strips
from pv4fad.protocol.match.comparison import N_BITS, N_DIGITS, N_LAST_REMAINDERS
from pv4fad.protocol.match.steps import (
    DigitsJob,
    DistancesJob,
    IndicatorsJob,
    OpenJob,
    PlanesJob,
    PowersJob,
    ValuesJob,
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
ENCRYPT_PLANE = "encrypt a plane"
REMAINDER = "encode, product with remainders"
PRODUCT = "product, relinearise, switch down"
SELECT = "product for a class, add"
SHARE_SLOTS = "encode, add a share"
SANITISE = "sanitise an indicator"
ENCRYPT_SHARE = "encrypt a share"
DECRYPT = "decrypt"


class OperationCounter:
    """Counts the operations of jobs as they are done, or as they are to be expected."""

    def __init__(self, parameters: RunParameters) -> None:
        self.counts: Counter[str] = Counter()
        self._slots = parameters.match_ring.degree
        self._share_slots = parameters.share_ring.degree

    def encrypt_powers(self, job: PowersJob) -> None:
        self.powers(job.degree, self.strips(len(job.tags)))

    def powers(self, degree: int, strips: Strips) -> None:
        self.counts[ENCRYPT_POWER] += n_powers(degree, strips.n)

    def mask_values(self, job: ValuesJob) -> None:
        self.values(job.degree, self.strips(job.tags.shape[1]))

    def values(self, degree: int, strips: Strips) -> None:
        """Both polynomials of a block, `he.polynomial.evaluate`."""
        w = baby_steps(degree, strips.n)
        n_giants = n_powers(degree, strips.n) - (w - 1) + (strips.n == 1)  # and 1, that is not sent
        for n_coefficients in (degree + 1, degree):
            # In a ciphertext with giant steps, the coefficients of the first strip decide.
            starts = range(0, n_giants * strips.n * w, strips.n * w)
            sections = [max(0, min(w, n_coefficients - start)) for start in starts]
            giants = sections[1:] if strips.n == 1 else sections
            self.counts[COEFFICIENT] += sum(max(0, n - 1) for n in sections) + giants.count(1)
            n_products = sum(n > 1 for n in giants)
            if n_products:
                self.counts[GIANT_STEP] += n_products - 1
                self.counts[RELINEARISE] += 1
        self.counts[SANITISE_VALUE] += 2

    def encrypt_digits(self, job: DigitsJob) -> None:
        n_digits, n_bins = job.digits.shape
        self.counts[ENCRYPT_DIGIT] += self.strips(n_bins).n_ciphertexts(n_digits)

    def mask_distances(self, job: DistancesJob) -> None:
        n_digits, n_bins = job.own.shape
        self.distances(n_digits, self.strips(n_bins))

    def distances(self, n_digits: int, strips: Strips) -> None:
        self.counts[DIGIT] += strips.n_ciphertexts(n_digits)
        self.counts[SANITISE_DISTANCE] += 1

    def encrypt_planes(self, job: PlanesJob) -> None:
        self.planes(job.n_classes, self.strips(len(job.classes)))

    def planes(self, n_classes: int, strips: Strips) -> None:
        self.counts[ENCRYPT_PLANE] += n_classes + strips.n_ciphertexts(N_LAST_REMAINDERS)

    def blind_indicators(self, job: IndicatorsJob) -> None:
        self.indicators(job.n_classes, self.strips(len(job.rho)))

    def indicators(self, n_classes: int, strips: Strips) -> None:
        self.counts[REMAINDER] += strips.n_ciphertexts(N_LAST_REMAINDERS)
        self.counts[PRODUCT] += n_classes
        self.counts[SELECT] += n_classes**2
        self.counts[SHARE_SLOTS] += n_classes
        self.counts[SANITISE] += n_classes
        self.counts[ENCRYPT_SHARE] += n_classes * -(-strips.n_bins // self._share_slots)

    def open_block(self, job: OpenJob) -> None:
        self.counts[DECRYPT] += len(job.ciphertexts)

    def strips(self, n_bins: int) -> Strips:
        return Strips(n_bins, self._slots)

    def with_costs(self, unit_s: dict[str, float]) -> tuple[Operation, ...]:
        """All of it, the costliest first."""
        operations = [Operation(name, n, unit_s[name]) for name, n in self.counts.items()]
        return tuple(sorted(operations, key=lambda one: -one.total_s))


def expected_operations(parameters: RunParameters) -> OperationCounter:
    """What a match will need."""
    expected = OperationCounter(parameters)
    n_classes = parameters.sizes.n_atoms
    for plan in parameters.tables:
        degree, strips = parameters.largest_load(plan), parameters.strips(plan)
        for block in range(plan.layout.n_blocks * len(plan.banks)):
            if block < plan.layout.n_blocks:  # the banks of a table share them
                expected.powers(degree, strips)
            expected.values(degree, strips)
            for n_digits in (N_DIGITS, N_BITS):
                expected.counts[ENCRYPT_DIGIT] += strips.n_ciphertexts(n_digits)
                expected.distances(n_digits, strips)
            expected.planes(n_classes, strips)
            expected.indicators(n_classes, strips)
            expected.counts[DECRYPT] += 4 + n_classes
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
    bits, part = values & np.uint64(1), values[: own.ring.degree]
    fresh, mask = encryptor.encrypt(bits), evaluator.prepare(values, top)
    total, low = evaluator.total([fresh]), evaluator.switch_to(fresh, FINAL_PRIMES)
    flooded = ring.load(sanitiser.sanitise(public.zero(FINAL_PRIMES)), 1)
    final = evaluator.total([low])
    return {
        ENCRYPT_PLANE: lambda: encryptor.encrypt(bits),
        REMAINDER: lambda: evaluator.times_slots(fresh, bits),
        PRODUCT: lambda: evaluator.multiply(fresh, fresh),
        SELECT: lambda: evaluator.add_prepared(total, fresh, mask),
        SHARE_SLOTS: lambda: evaluator.add_slots(final, values),
        SANITISE: lambda: sanitiser.sanitise(evaluator.total([low])),
        ENCRYPT_SHARE: lambda: own.encrypt(part),
        DECRYPT: lambda: decryptor.decrypt(flooded),
    }


def _seconds(operation: Callable[[], Any]) -> float:
    operation()
    start, n = time.perf_counter(), 0
    while n < 3 or (time.perf_counter() - start < _SECONDS_EACH and n < _MOST_REPEATS):
        operation()
        n += 1
    return (time.perf_counter() - start) / n
