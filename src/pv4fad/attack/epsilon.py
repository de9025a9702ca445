"""An audit of ε: what an attacker really learns from a hundred thousand releases.

Two neighbouring worlds differ in one record.  The release step, the noise of the H banks that the
claim relies on, is drawn many times for each.  An attacker who knows everything but that record
looks at the sums that it enters, and says *the second world* if every one of them looks like it.
How often that is right in one world and wrong in the other bounds ε from below:

    ε ≥ log P(says so | second world) − log P(says so | first world)

With discrete Laplace noise this event is the most telling one, so the bound comes close to ε if the
noise is what it should be, and exceeds ε if it is too small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from pv4fad.attack.findings import CONFIDENCE, Finding, at_least, at_most
from pv4fad.errors import ParameterError
from pv4fad.privacy.noise import discrete_laplace, polya_share
from pv4fad.protocol.parameters import RunParameters

RELEASES = 100_000

Noise = Callable[[int], NDArray[np.int64]]
"""So many draws of what the banks that are relied on add to a sum together."""


@dataclass(frozen=True)
class Bounds:
    """What was found about ε."""

    at_least: float
    releases: int


def noise_that_is_relied_on(parameters: RunParameters) -> Noise:
    """Of H banks; what others add, an attacker may know."""
    epsilon, sensitivity = parameters.exact_epsilon, parameters.sensitivity
    if isinstance(epsilon, str):
        raise ParameterError("a run without noise has no ε to audit")
    if parameters.noise == "per-bank":
        return lambda n: discrete_laplace(epsilon, sensitivity, n)
    n_banks = parameters.honest_banks

    def shares(n: int) -> NDArray[np.int64]:
        drawn = polya_share(epsilon, sensitivity, n_banks, n_banks * n)
        return np.asarray(drawn.reshape(n_banks, n).sum(axis=0))

    return shares


def audit(noise: Noise, sensitivity: int, releases: int) -> Bounds:
    """`sensitivity`: how many sums the record enters, each by one."""
    if releases < 1000:
        raise ParameterError(f"releases {releases}: fewer than 1,000 tell nothing")
    first = noise(releases * sensitivity).reshape(releases, sensitivity)
    second = noise(releases * sensitivity).reshape(releases, sensitivity) + 1
    right = int((second >= 1).all(axis=1).sum())
    wrong = int((first >= 1).all(axis=1).sum())
    # The confidence is for both together.
    each = (1 + CONFIDENCE) / 2
    return Bounds(
        log(max(at_least(right, releases, each), 1e-12)) - log(at_most(wrong, releases, each)),
        releases,
    )


def audit_of_run(parameters: RunParameters, releases: int = RELEASES) -> Finding:
    """With the noise of a run, as its banks draw it."""
    epsilon = parameters.exact_epsilon
    if isinstance(epsilon, str):
        raise ParameterError("a run without noise has no ε to audit")
    found = audit(noise_that_is_relied_on(parameters), parameters.sensitivity, releases)
    return Finding(
        attacker="lead",
        target="one {record}, knowing all others",
        measure=f"ε, at least ({CONFIDENCE:.0%} confidence)",
        found=found.at_least,
        guess=0.0,
        allowed=float(epsilon),
        n=releases,
        note="releases of the noise that is relied on, drawn anew",
    )
