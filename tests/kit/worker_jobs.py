"""Jobs for workers, at module level: worker processes and Ray nodes import them."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pv4fad.errors import CiphertextError
from pv4fad.workers import SharedBytes


def double(values: np.ndarray) -> np.ndarray:
    """In place: what a job gets is its own."""
    values *= 2
    return values


def refuse(x: int) -> int:
    raise CiphertextError(f"job {x} is no ciphertext")


def fail(x: int) -> int:
    raise ZeroDivisionError(f"a mistake in job {x}")


@dataclass(frozen=True)
class SharedJob:
    shared: SharedBytes
    size: int


def pieces(job: SharedJob) -> list[bytes]:
    return list(job.shared.pieces(job.size))


@dataclass(frozen=True)
class HangingJob:
    """Never ends on one node; `session`: of its processes."""

    folder: Path
    session: int
    number: int


def hang(job: HangingJob) -> int:
    if os.getsid(0) == job.session:
        (job.folder / str(job.number)).touch()
        while True:
            time.sleep(1)
    return job.number
