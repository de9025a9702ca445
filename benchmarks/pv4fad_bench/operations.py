"""HE operations on the clock, inside the jobs that do them.

A job is run with a clock in front of every operation on ciphertexts: how often it was done, and
for how long.  Operations inside of another one are part of it; reading and writing bytes are none.
All of them take place in worker processes, so that their sum, divided by the workers, is never
longer than the time in which the jobs were done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pv4fad.he.keys import Decryptor, Encryptor, Evaluator, SecretEncryptor
from pv4fad.he.sanitise import Sanitiser

Job = TypeVar("Job")
Result = TypeVar("Result")

SANITISE, DECRYPT, ENCRYPT = "sanitise", "decrypt", "encrypt"
_OPERATIONS: dict[tuple[type, str], str] = {
    (SecretEncryptor, "encrypt"): ENCRYPT,
    (Encryptor, "zero"): "encrypt zero",
    (Decryptor, "decrypt"): DECRYPT,
    (Sanitiser, "sanitise"): SANITISE,
    (Evaluator, "add"): "add",
    (Evaluator, "sub"): "add",
    (Evaluator, "total"): "add",
    (Evaluator, "combination"): "add",
    (Evaluator, "add_slots"): "add slots",
    (Evaluator, "times_slots"): "products with slots",
    (Evaluator, "add_products"): "products with slots",
    (Evaluator, "prepare"): "prepare slots",
    (Evaluator, "add_prepared"): "product with prepared slots",
    (Evaluator, "multiply"): "product, relinearise, switch down",
    (Evaluator, "product"): "product",
    (Evaluator, "sum_of_products"): "products, relinearise",
    (Evaluator, "switch_to"): "switch down",
}


@dataclass
class Spent:
    """How often an operation was done, and the seconds of all of them."""

    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class ClockedJob(Generic[Job, Result]):
    """A job to be done on the clock."""

    function: Callable[[Job], Result]
    job: Job = field(repr=False)


@dataclass(frozen=True)
class Clocked(Generic[Result]):
    """Its result, and its HE operations."""

    result: Result = field(repr=False)
    spent: dict[str, Spent]


def clocked(job: ClockedJob[Job, Result]) -> Clocked[Result]:
    """Do a job, in a worker."""
    with clock() as spent:
        result = job.function(job.job)
    return Clocked(result, spent)


@contextmanager
def clock() -> Iterator[dict[str, Spent]]:
    """Every operation of this process is timed meanwhile; one thread only."""
    spent: dict[str, Spent] = {}
    inside: list[str] = []
    untimed = {place: getattr(*place) for place in _OPERATIONS}

    def timed(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **named: Any) -> Any:
            if inside:
                return operation(*arguments, **named)
            inside.append(name)
            start = time.perf_counter()
            try:
                return operation(*arguments, **named)
            finally:
                inside.pop()
                one = spent.setdefault(name, Spent())
                one.count += 1
                one.seconds += time.perf_counter() - start

        return operate

    for place, name in _OPERATIONS.items():
        setattr(*place, timed(name, untimed[place]))
    try:
        yield spent
    finally:
        for place, operation in untimed.items():
            setattr(*place, operation)
