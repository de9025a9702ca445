"""The payment network as an attacker on vote totals (`--model paper --scoring votes`).

Nearly all accounts are ordinary, and of an ordinary account the vote total of a side is the sum of
one label for each group that the payment reaches.  So the totals of many payments are linear
equations in these labels.  Where a total is not what they add up to, the account is not ordinary.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from pv4fad.attack.findings import Finding
from pv4fad.forest.votes import reached_groups
from pv4fad.lead.paper_model import vote_columns
from pv4fad.lead.rows import NewRows
from pv4fad.protocol.propose.inputs import Trees
from pv4fad.run.predictions import in_order

_RIDGE = 1e-6  # where groups are reached together only, any split of their labels will do


def by_votes(
    payments: NewRows, trees: Trees, predictions: pl.DataFrame, odd: NDArray[np.bool_]
) -> tuple[Finding, Finding]:
    """`odd`: of each account of the payments, whether it is not ordinary."""
    forest, codes = trees.forest, trees.forest.route(payments.features.values)
    table = in_order(predictions, payments.ids)
    named = np.zeros(len(payments.keys), np.bool_)
    for side, column in enumerate(vote_columns(payments.schema)[1:]):
        reached = reached_groups(forest, codes, side)
        totals = table[column].to_numpy().astype(np.float64)
        unusual = np.abs(totals - _usual(reached, totals, forest.sizes.n_groups)) > 0.5
        named[payments.key_of[unusual, side]] = True
    right, rate = int((named & odd).sum()), float(odd.mean())
    target = "which {records} are not ordinary, from vote totals"
    return (
        Finding(
            attacker="lead",
            target=target,
            measure="share recognised",
            found=right / max(int(odd.sum()), 1),
            guess=0.0,
            n=int(odd.sum()),
        ),
        Finding(
            attacker="lead",
            target=target,
            measure="precision",
            found=right / max(int(named.sum()), 1),
            guess=rate,
            n=int(named.sum()),
        ),
    )


def _usual(
    reached: NDArray[np.int32], totals: NDArray[np.float64], n_groups: int
) -> NDArray[np.float64]:
    """What the labels of the groups add up to, by least squares over all payments."""
    row, tree = np.nonzero(reached >= 0)
    ones = np.ones(len(row))
    matrix = csr_matrix((ones, (row, reached[row, tree])), shape=(len(reached), n_groups))
    normal = (matrix.T @ matrix).toarray() + _RIDGE * np.eye(n_groups)
    labels = np.linalg.solve(normal, matrix.T @ totals)
    return np.asarray(matrix @ labels)
