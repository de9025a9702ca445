"""What to generate: the parameters a user gives, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pv4fad.errors import ParameterError
from pv4fad.payments.generate.calibration import ACCOUNTS_PER_MESSAGE, ANOMALY_RATE

MIN_TRANSACTIONS, MAX_TRANSACTIONS = 1_000, 50_000_000
MIN_BANKS, MAX_BANKS = 3, 99
MIN_MESSAGES_PER_BANK = 40
MIN_ACCOUNTS, MIN_ACCOUNTS_PER_BANK = 100, 10
MAX_ANOMALY_RATE = 0.05


class Difficulty(StrEnum):
    """How telling the data is.

    In `challenge` a flag means an anomaly, as in the original.  In `hard` it need not, an anomaly
    need not have a flag, and odd-looking messages are as often normal as anomalous.
    """

    CHALLENGE = "challenge"
    HARD = "hard"


@dataclass(frozen=True)
class Settings:
    """Checked parameters of one data set; equal settings give equal data."""

    transactions: int
    banks: int
    difficulty: Difficulty
    seed: int
    anomaly_rate: float = ANOMALY_RATE
    accounts: int | None = None  # None: as many per message as in the original

    def __post_init__(self) -> None:
        _require_range("transactions", self.transactions, MIN_TRANSACTIONS, MAX_TRANSACTIONS)
        _require_range("banks", self.banks, MIN_BANKS, MAX_BANKS)
        if self.transactions < MIN_MESSAGES_PER_BANK * self.banks:
            raise ParameterError(
                f"transactions {self.transactions} are too few for banks {self.banks}: "
                f"give at least {MIN_MESSAGES_PER_BANK} per bank"
            )
        if not 0.0 < self.anomaly_rate <= MAX_ANOMALY_RATE:
            raise ParameterError(
                f"anomaly-rate {self.anomaly_rate} is outside 0 < rate <= {MAX_ANOMALY_RATE}"
            )
        if self.seed < 0:
            raise ParameterError(f"seed {self.seed} is negative; give 0 or more")
        if self.accounts is not None:
            _require_range("accounts", self.accounts, self._least_accounts, self.transactions)

    @property
    def n_accounts(self) -> int:
        """Accounts in all banks' files together."""
        if self.accounts is not None:
            return self.accounts
        return max(self._least_accounts, round(self.transactions * ACCOUNTS_PER_MESSAGE))

    @property
    def _least_accounts(self) -> int:
        return max(MIN_ACCOUNTS, MIN_ACCOUNTS_PER_BANK * self.banks)

    @property
    def is_hard(self) -> bool:
        return self.difficulty is Difficulty.HARD


def _require_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ParameterError(f"{name} {value} is outside {low}..{high}")
