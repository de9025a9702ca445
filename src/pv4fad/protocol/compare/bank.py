"""A bank after compare (protocol.md §11.4): in sealed mode it keeps its share of the labels."""

from __future__ import annotations

from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.compare.messages import LabelMasks
from pv4fad.protocol.compare.state import BankLabelShare
from pv4fad.protocol.state import parameters_of
from pv4fad.store.records import Records


def keep_label_share(message: LabelMasks, run: Records) -> None:
    """b of every leaf."""
    parameters = parameters_of(run)
    expect(parameters.mode == "sealed", message, "this model is released, not sealed")
    n_leaves, t = parameters.sizes.n_leaves, parameters.plain_modulus
    expect_residues(message, message.residues, n_leaves, t)
    run.put(BankLabelShare(message.residues))
