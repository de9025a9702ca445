"""Banks and the aggregator as attackers: is what they hold from others uniform?

A finished run leaves little with them: a bank its share q of every sum and, for vote totals, shares
of sets and labels; the aggregator the sums that it has passed on, until a later message proves that
they have arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, kstest

from pv4fad.attack.findings import FALSE_ALARM, Finding, NotLead
from pv4fad.protocol.compare.messages import BlindedSums
from pv4fad.protocol.compare.state import BankLabelShare
from pv4fad.protocol.count.messages import NoisyCounts
from pv4fad.protocol.count.state import BankSums
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.protocol.score.state import OpenedSets
from pv4fad.protocol.wire import decode
from pv4fad.store.records import Records
from pv4fad.store.store import Store

_BINS = 16
_MANY = 1600  # of which chi-square is right about probabilities this small

Values = NDArray[np.float64]
"""Residues, as shares of t."""


def store_findings(stores: Mapping[str, Store], parameters: RunParameters) -> tuple[Finding, ...]:
    """`stores`: of the aggregator and of the banks of the run, as far as they are at hand."""
    target, t = "anything about {rows}: from what its store holds", parameters.plain_modulus
    held = {
        name: [one.ravel() / t for one in _held(store, parameters)]
        for name, store in stores.items()
    }
    banks = [one for name, values in held.items() if name != AGGREGATOR for one in values]
    return (
        not_uniform("holders", target, banks),
        not_uniform("aggregator", target, held.get(AGGREGATOR, [])),
    )


def _held(store: Store, parameters: RunParameters) -> Iterator[NDArray[np.integer]]:
    """What one of them has from others."""
    with store.transaction() as tx:
        training = Records(tx, parameters.run_id)
        for records in (training, *map(training.of_epoch, sorted(training.epochs()))):
            if (sums := records.find(BankSums)) is not None:
                yield sums.q
            if (share := records.find(BankLabelShare)) is not None:
                yield share.b
            for place in records.places(OpenedSets):
                yield records.get(OpenedSets, *place).v
    for data in store.unacknowledged():
        message = decode(data)
        of_run = message.address.run_id == parameters.run_id
        if of_run and isinstance(message, NoisyCounts | BlindedSums):
            yield message.residues


def not_uniform(attacker: NotLead, target: str, values: list[Values]) -> Finding:
    """Whether there is anything to see in values that should be uniform."""
    every = np.concatenate([*values, np.empty(0)])
    return Finding(
        attacker=attacker,
        target=target,
        measure="1 − p of a test of uniformity",
        found=1 - uniformity(every),
        guess=0.5,
        allowed=1 - FALSE_ALARM,
        n=len(every),
        note="" if len(every) else "it holds nothing from others",
    )


def uniformity(shares: Values) -> float:
    """p of a test: small if these are not uniform in [0, 1)."""
    if not len(shares):
        return 1.0
    if len(shares) < _MANY:
        return float(kstest(shares, "uniform", method="exact").pvalue)
    counts = np.histogram(shares, _BINS, (0, 1))[0]
    expected = counts.sum() / _BINS
    return float(chi2.sf(np.square(counts - expected).sum() / expected, _BINS - 1))
