"""The aggregator in count (protocol.md §5): V = Σ_j (noise − q_j + masks)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.count.messages import NoisySums
from pv4fad.protocol.count.state import SumsSoFar
from pv4fad.protocol.state import parameters_of
from pv4fad.store.records import Records


def add_sums(message: NoisySums, received: Collection[str], run: Records) -> NDArray[np.uint64]:
    """V with the sums of one more bank; the masks cancel once all banks are in."""
    parameters, bank = parameters_of(run), message.address.sender
    t = parameters.plain_modulus
    expect(bank in parameters.banks and bank not in received, message, "not expected from it")
    expect_residues(message, message.residues, parameters.sizes.n_sums, t)
    v = (run.get(SumsSoFar).v + message.residues) % np.uint64(t)
    run.put(SumsSoFar(v))
    return v
