"""A federation as a Python program sees it, wherever its parties are.

In `simulated` all of them are in this process; `deployed` leads those of a deployment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import NoReturn, Self

import polars as pl

from pv4fad.api.arguments import Limit, Source, given_table
from pv4fad.errors import ParameterError
from pv4fad.lead.data import load_rows
from pv4fad.lead.score import How, Scored
from pv4fad.lead.settings import TrainingSettings
from pv4fad.privacy.delta import delta_text
from pv4fad.privacy.epsilon import epsilon_text
from pv4fad.privacy.ledger import Ledger
from pv4fad.run.document import RunDocument
from pv4fad.schema import Schema
from pv4fad.store.store import Store


class Federation(ABC):
    """A lead, its holders and an aggregator; from `simulate` or `connect`, ended by its block.

    Each party has a store and keys of its own, and they exchange the same messages on one machine
    as on several.

    >>> federation.holders
    ('north', 'south')
    >>> federation.ledgers
    holder  spent  limit  left  δ of the year
    north       0      3     3              0
    south       0      3     3              0
    """

    def __init__(self, schema: Schema, resources: ExitStack) -> None:
        self.schema = schema
        self._resources = resources

    def __repr__(self) -> str:
        return f"Federation(holders={list(self.holders)}, schema={self.schema.name!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ParameterError(
            "a federation holds keys and ledgers, and cannot be pickled or copied; "
            "to keep a detector, call save(folder)"
        )

    @property
    @abstractmethod
    def holders(self) -> tuple[str, ...]:
        """Their names."""

    @property
    @abstractmethod
    def ledgers(self) -> Ledgers:
        """What each holder has spent of ε, its limit, and δ, as far as this is known here."""

    @abstractmethod
    def set_limit(self, holder: str, epsilon: Limit) -> None:
        """Let a holder allow so much ε in total, over all runs; 'none' is no limit.

        >>> federation.set_limit("north", 5)
        >>> federation.ledgers["north"].limit
        Fraction(5, 1)
        """

    @abstractmethod
    def refresh(self, holders: Mapping[str, Source] | None = None) -> Self:
        """Match all accounts again, with new keys: records have changed, or keys are old.

        `holders`: the new table of each holder whose records have changed.  No ε is spent.  The
        lead forgets the answers that it was given, and may ask about an account once more.

        >>> _ = federation.refresh({"north": hospitals["north"]})
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs for the federation in this process, and forget what is in memory."""
        self._resources.close()

    # For detectors.

    def read_rows(self, rows: Source, *, labels_required: bool) -> pl.DataFrame:
        """The lead's rows, checked."""
        return load_rows(self.schema, given_table(rows), labels_required=labels_required)

    @abstractmethod
    def train(self, rows: pl.DataFrame, settings: TrainingSettings) -> RunDocument:
        """A new run on checked rows; holders spend ε."""

    @abstractmethod
    def score(
        self, run: RunDocument, history: pl.DataFrame, rows: pl.DataFrame, how: How
    ) -> Scored:
        """Predictions for checked rows; `history`: those that the run was trained on."""

    @property
    @abstractmethod
    def lead_store(self) -> Store:
        """What the lead keeps."""


class Ledgers(Mapping[str, Ledger]):
    """The privacy ledger of each holder, by name."""

    def __init__(self, ledgers: Mapping[str, Ledger], *, limits_known: bool = True) -> None:
        self._ledgers = dict(ledgers)
        self._line = _line if limits_known else _line_without_limit

    def __getitem__(self, holder: str) -> Ledger:
        return self._ledgers[holder]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ledgers)

    def __len__(self) -> int:
        return len(self._ledgers)

    def __repr__(self) -> str:
        heads = ("holder", "spent", "limit", "left", "δ of the year")
        lines = [heads, *(self._line(holder, ledger) for holder, ledger in self.items())]
        first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
        return "\n".join(
            "  ".join([name.ljust(first), *map(str.rjust, amounts, others)])
            for name, *amounts in lines
        )


def _line(holder: str, ledger: Ledger) -> tuple[str, ...]:
    limit = "not set" if ledger.limit is None else epsilon_text(ledger.limit)
    delta = delta_text(ledger.delta.of_year(datetime.now(UTC).date()))
    return holder, epsilon_text(ledger.spent), limit, epsilon_text(ledger.left), delta


def _line_without_limit(holder: str, ledger: Ledger) -> tuple[str, ...]:
    return holder, epsilon_text(ledger.spent), "not known", "not known", "not known"
