"""An audit of ε: what an attacker really learns from a hundred thousand releases.

Two neighbouring worlds differ in one record: the change of class that moves most sums, by the sets
of the run.  The release step is repeated many times for each, with the protocol's own functions:
each of the H banks that the claim relies on draws its noise for its share, the noisy shares are
added up, and the payment network adds its own.  An attacker who knows everything but that record
looks at the sums that it moves, and says *the second world* if every one of them looks like it.
How often that is right in one world and wrong in the other bounds ε from below:

    ε ≥ log P(says so | second world) − log P(says so | first world)

With discrete Laplace noise this event is the most telling one, so the bound comes close to ε if the
noise is what it should be, and exceeds ε if it is too small.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from pv4fad.attack.findings import FALSE_ALARM, Finding, at_least, at_most
from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import counted_sets, n_kinds_of
from pv4fad.protocol.count.bank import draw_noise
from pv4fad.protocol.count.steps import noisy_share
from pv4fad.protocol.parameters import RunParameters
from pv4fad.randomness import secret_residues

RELEASES = 100_000
FEWEST_RELEASES = 1000

Sums = NDArray[np.int64]


def change_of_a_record(parameters: RunParameters) -> Sums:
    """By how much a record that changes its class moves each sum that it moves, at worst."""
    if parameters.counted is None or parameters.absent is None:
        # The paper's trees: it leaves one set, and enters another where there is one.
        moves = [1] if parameters.sizes.n_sets == 1 else [1, -1]
        return np.array(moves * parameters.bound)
    n_atoms = parameters.sizes.n_atoms
    n_kinds = n_kinds_of(n_atoms, parameters.absent)
    sets = counted_sets(parameters.counted, parameters.absent, n_kinds)
    every = [*range(n_atoms), -1]  # the last: no record
    changes = [
        [(new in one) - (old in one) for one in sets] * parameters.bound
        for old in every
        for new in every
    ]
    worst = np.array(max(changes, key=lambda change: sum(map(abs, change))))
    return np.asarray(worst[worst != 0])


def releases_of(parameters: RunParameters, change: Sums, n: int) -> Sums:
    """(n, sums moved): what the payment network gets where the true sums are `change`."""
    t, sizes = parameters.plain_modulus, parameters.sizes
    n_banks = parameters.honest_banks if parameters.noise == "distributed" else 1
    wanted = n * len(change)
    # A bank draws all noise of a run at once: here of a run with as many sums as are wanted.
    many = replace(sizes, n_trees=-(-wanted // sizes.sums_per_tree))
    of_all = parameters.model_copy(update={"sizes": many})
    true = np.tile(change, n)
    own = secret_residues(t, wanted).astype(np.uint64)  # p; the banks' q add up to p − true
    left = (own.astype(np.int64) - true) % t
    total = np.zeros(wanted, np.uint64)
    no_mask = np.zeros(wanted, np.uint64)  # masks of pairs of banks cancel out
    for bank in range(n_banks):
        noise = draw_noise(of_all)[:wanted]
        is_last = bank == n_banks - 1
        share = left.astype(np.uint64) if is_last else secret_residues(t, wanted).astype(np.uint64)
        left = (left - share.astype(np.int64)) % t
        total = (total + noisy_share(noise, share, no_mask, t)) % np.uint64(t)
    return parameters.signed((total + own) % np.uint64(t)).reshape(n, len(change))


def audit(parameters: RunParameters, releases: int = RELEASES) -> Finding:
    """With the noise of a run, as its banks draw it."""
    epsilon = parameters.exact_epsilon
    if isinstance(epsilon, str):
        raise ParameterError("a run without noise has no ε to audit")
    if releases < FEWEST_RELEASES:
        raise ParameterError(f"releases {releases}: fewer than {FEWEST_RELEASES:,} tell nothing")
    change = change_of_a_record(parameters)
    says_so = [
        int((releases_of(parameters, world, releases) * np.sign(change) >= 1).all(axis=1).sum())
        for world in (0 * change, change)
    ]
    # The confidence is for both together.
    each = 1 - FALSE_ALARM / 2
    wrong, right = at_most(says_so[0], releases, each), at_least(says_so[1], releases, each)
    return Finding(
        attacker="lead",
        target="one {record}, knowing all others",
        measure=f"ε, at least ({1 - FALSE_ALARM:.4%} confidence)",
        found=log(max(right, 1e-12)) - log(wrong),
        guess=0.0,
        allowed=float(epsilon),
        n=releases,
        note="releases of the noise that is relied on, drawn anew",
    )
