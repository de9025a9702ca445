"""The payment network, knowing all records but one: what do the counts say about that one?

That is the attacker whom ε is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from pv4fad.attack.belief import ABSENT, Integers
from pv4fad.attack.findings import Finding
from pv4fad.attack.network import HeldCounts
from pv4fad.evidence.classes import ORDINARY, counted_sets, provided_kinds
from pv4fad.evidence.noise import CountNoise
from pv4fad.lead.evidence_model import noise_of
from pv4fad.privacy.effective import guessing_bound
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.schema import Schema


def knowing_all_others(
    views: Sequence[HeldCounts], schema: Schema, class_of: Mapping[bytes, int]
) -> Finding | None:
    """Whether a record is ordinary, or what it is: an attacker who knows all the others.

    As many ordinary records as others, so that a guess is right in half of the cases.  None if
    there is no record that is not ordinary.
    """
    per_run = [_ratios(view, schema, class_of) for view in views]
    totals: dict[tuple[bytes, bool], float] = {}
    for one in per_run:
        for case, ratio in one.items():
            totals[case] = totals.get(case, 0.0) + ratio
    odd = [ratio for (_, is_odd), ratio in totals.items() if is_odd]
    ordinary = [ratio for (_, is_odd), ratio in totals.items() if not is_odd]
    n = min(len(odd), len(ordinary))
    if n == 0:
        return None
    # Ties are guesses.
    right = sum((r > 0) + (r == 0) / 2 for r in odd) / len(odd)
    right += sum((r < 0) + (r == 0) / 2 for r in ordinary) / len(ordinary)
    bound = guessing_bound(_epsilon_of(views))
    return Finding(
        attacker="lead",
        target="whether {a_record} is ordinary, knowing all others",
        measure="right guesses, where half are right by chance",
        found=right / 2,
        guess=0.5,
        n=2 * n,
        # One draw of the noise in each cell is no average: the audit of ε tests the claim.
        note=f"ε allows {bound:.3f} on average over draws of the noise",
    )


def _epsilon_of(views: Sequence[HeldCounts]) -> Epsilon:
    """Of all runs together."""
    total = Fraction(0)
    for view in views:
        if isinstance(view.parameters.exact_epsilon, str):
            return view.parameters.exact_epsilon
        total += view.parameters.exact_epsilon
    return total


def _ratios(
    view: HeldCounts, schema: Schema, class_of: Mapping[bytes, int]
) -> dict[tuple[bytes, bool], float]:
    """Of each record: log P(counts | as an odd one) − log P(counts | ordinary), all else known.

    An odd record is compared as what it is, an ordinary one as the most frequent odd kind.
    """
    parameters, ids, cell = view.parameters, view.counted.ids, view.counted.group
    if parameters.absent is None or parameters.counted is None:
        return {}
    noise = noise_of(parameters)
    atom_of = [*schema.atom_of_class(parameters.absent), ABSENT]
    atoms = np.array([atom_of[class_of[account]] for account in ids])
    provided = provided_kinds(parameters.absent, len(schema.record.kind_names))
    ordinary = provided.index(ORDINARY) if ORDINARY in provided else ABSENT
    sets = counted_sets(parameters.counted, parameters.absent, len(schema.record.kind_names))
    true = np.zeros_like(view.counts)
    for number, members in enumerate(sets):
        inside = np.isin(atoms, members)
        true[:, number] = np.bincount(cell[inside], minlength=len(view.kept))
    residual = view.counts - true
    odd = np.flatnonzero(atoms != ordinary)
    if not len(odd):
        return {}
    usual_odd = int(np.bincount(atoms[odd] - ABSENT).argmax()) + ABSENT
    found: dict[tuple[bytes, bool], float] = {}
    # As many ordinary ones, the same each time: an attack on a run has one result.
    rng = np.random.default_rng(0)
    plain = np.flatnonzero(atoms == ordinary)
    chosen = rng.choice(plain, min(len(odd), len(plain)), replace=False)
    for account, other in [(k, int(atoms[k])) for k in odd] + [(k, usual_odd) for k in chosen]:
        is_odd = bool(atoms[account] != ordinary)
        as_odd, as_ordinary = (
            np.array([kind in members for members in sets], np.int64) for kind in (other, ordinary)
        )
        mine = as_odd if is_odd else as_ordinary
        seen = residual[cell[account]] + mine  # the noise, plus what this record adds
        ratio = _log_noise(noise, seen - as_odd) - _log_noise(noise, seen - as_ordinary)
        found[ids[account], is_odd] = float(ratio)
    return found


def _log_noise(noise: CountNoise, values: Integers) -> float:
    """log P that the noise of these sums is this."""
    chance = noise.probabilities()
    reach = len(chance) // 2
    inside = np.abs(values) <= reach
    found = np.where(inside, chance[np.clip(values, -reach, reach) + reach], 0.0)
    return float(np.log(np.maximum(found, 1e-300)).sum())
