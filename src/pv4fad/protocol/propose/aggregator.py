"""The aggregator in propose (protocol.md §8.0): it keeps parameters and keys."""

from __future__ import annotations

import numpy as np

from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.state import SumsSoFar
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.propose.ring_keys import keep_public_keys
from pv4fad.protocol.state import Proposal
from pv4fad.store.records import Records


def join(message: RunProposal, run: Records) -> None:
    """Step 2: what it needs to add up and to compare."""
    proposal = Proposal(message.parameters)
    parameters = proposal.parsed()
    expect(parameters.run_id == message.address.run_id, message, "parameters of another run")
    keep_public_keys(message, parameters, parameters.aggregator_rings, run)
    run.put(proposal)
    run.put(SumsSoFar(np.zeros(parameters.sizes.n_sums, np.uint64)))
