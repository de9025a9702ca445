"""Models and payments to try questions with."""

import numpy as np

from pv4fad.detection.local_scale import LocalScale
from pv4fad.evidence.cells import n_cells
from pv4fad.evidence.judgement import EvidenceRows
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.evidence.model import EvidenceModel

N_CELLS = n_cells(2)
KINDS = ((2,), (3,), (1,))


def knowledge(rng, n=400):
    """Calibration rows around a hazard of 0.01; hits add 0.2 to it."""
    history = np.full((2, 2, 3, 2), -np.inf)
    history[..., 1] = np.log(np.expm1(0.2))
    return Knowledge(
        LocalScale(0.5, 1.5),
        history,
        rng.random((N_CELLS, 2, 2, 3, 2)),
        rng.integers(1, 100, N_CELLS),
        np.exp(rng.normal(-5, 2, n)),
        rng.random(n) < 0.5,
        rng.integers(0, 3, (n, 2)),
        rng.uniform(1, 8, n),
    )


def model(seed, kinds=KINDS):
    """Every second kind in a stratum tells something."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-1, 3, (2, 2, 3, len(kinds)))
    log_odds[rng.random(log_odds.shape) < 0.5] = -np.inf
    share = rng.uniform(0, 0.01, log_odds.shape)
    return EvidenceModel(knowledge(rng), kinds, log_odds, share, tuple(range(len(kinds))))


def rows(seed, n=300, n_accounts=80):
    rng = np.random.default_rng(seed)
    return EvidenceRows(
        rng.normal(-4, 1.5, n).astype(np.float32),
        rng.random(n) < 0.5,
        rng.integers(0, 3, (n, 2)),
        rng.random((n, 2)) < 0.05,
        rng.integers(0, n_accounts, (n, 2)),
        rng.random((n, 2)) < 0.9,
    )


def by_kind(one):
    """(side, first, stratum, kind of record): the log-odds of a model; -∞ for ordinary ones."""
    table = np.full((*one.log_odds.shape[:3], 4), -np.inf)
    for number, kinds in enumerate(one.kinds):
        table[..., list(kinds)] = one.log_odds[..., number, np.newaxis]
    return table


def classes(seed, n_accounts=80):
    """Half of the accounts are ordinary."""
    return np.random.default_rng(seed).choice(4, n_accounts, p=(0.5, 0.2, 0.2, 0.1))
