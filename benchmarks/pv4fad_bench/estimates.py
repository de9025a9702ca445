"""How long a benchmark is likely to take, for the line before it begins; public sizes alone."""

from __future__ import annotations

from pv4fad.protocol.layouts import table_seconds
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.score.plan import ScoringPlan

# CPU seconds of a block of bins in a layer: of each group of leaves, and of anything.
_GROUP_S, _LAYER_S = 1.4e-3, 0.03


def match_seconds(parameters: RunParameters) -> float:
    """CPU seconds of both parties."""
    return sum(
        table_seconds(plan.layout, parameters.banks[bank], parameters.sizes.n_atoms)
        for plan in parameters.tables
        for bank in plan.banks
    )


def score_seconds(parameters: RunParameters, n_layers: int) -> float:
    """The same of a batch with so many layers, at most: every group in every one of them."""
    scoring = ScoringPlan(parameters)
    n_blocks = sum(scoring.n_share_blocks(plan) * len(plan.banks) for plan in parameters.tables)
    n_groups = parameters.sizes.n_groups if parameters.mode == "sealed" else 0
    return n_blocks * n_layers * (_LAYER_S + _GROUP_S * n_groups)
