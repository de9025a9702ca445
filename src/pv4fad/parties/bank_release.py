"""What a bank's release costs and how much noise it carries (protocol.md §5)."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from pv4fad.privacy.ledger import Expense
from pv4fad.privacy.noise import discrete_laplace, polya_share
from pv4fad.protocol.parameters import RunParameters

UNIT = "one account record at one bank, added, removed or changed"


def draw_noise(parameters: RunParameters) -> NDArray[np.int64]:
    """One draw per sum, exact, from the operating system's CSPRNG."""
    epsilon, n = parameters.exact_epsilon, parameters.sizes.n_sums
    if isinstance(epsilon, str):
        return np.zeros(n, np.int64)
    if parameters.noise == "per-bank":
        return discrete_laplace(epsilon, parameters.sensitivity, n)
    return polya_share(epsilon, parameters.sensitivity, parameters.honest_banks, n)


def expense_of(parameters: RunParameters, account_file: str) -> Expense:
    """What the release of a run is entered in the ledger as."""
    return Expense(
        run_id=parameters.run_id,
        epsilon=parameters.exact_epsilon,
        sensitivity=parameters.sensitivity,
        unit=UNIT,
        noise=parameters.noise,
        account_file=account_file,
        time=datetime.now(UTC),
        honest_banks=parameters.honest_banks if parameters.noise == "distributed" else 1,
    )
