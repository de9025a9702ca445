"""The votes of predictions compared with those of a trusted third party (protocol.md §9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.challenge import read_partition
from pv4fad.data.loading import load_transactions
from pv4fad.detection.recipe import Combiner
from pv4fad.errors import DataError
from pv4fad.forest.structure import Forest
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.parties.party import RunRecords
from pv4fad.parties.store import Store
from pv4fad.runs.combining import DetectionAtHand
from pv4fad.runs.comparison import Comparison, joined_atoms
from pv4fad.runs.predictions import VOTES, in_order
from pv4fad.runs.scoring_record import read_record
from pv4fad.runs.scoring_rows import scoring_rows


@dataclass(frozen=True)
class ScoredData:
    """Transactions, the banks' accounts when they were scored, and what was predicted."""

    transactions: pl.DataFrame = field(repr=False)
    accounts: Mapping[str, pl.DataFrame] = field(repr=False)
    predictions: pl.DataFrame = field(repr=False)
    combiner: Combiner

    @classmethod
    def read(
        cls, split: Path, accounts: Mapping[str, pl.DataFrame], predictions: Path
    ) -> ScoredData:
        """A test split, and the file that `pv4fad score` made for it."""
        source = read_partition(split).transactions
        transactions = load_transactions(source, labels_required=False).frame
        table = _read(predictions)
        if set(table["MessageId"]) != set(transactions["MessageId"]):
            raise DataError(f"{predictions}: not one prediction for each transaction of {source}")
        record = read_record(predictions)
        return cls(transactions, accounts, table, "votes" if record is None else record.combiner)


def _read(path: Path) -> pl.DataFrame:
    try:
        table = pl.read_csv(path, schema_overrides={"MessageId": pl.String, "Score": pl.Float64})
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}: no readable predictions: {error}") from None
    if not {"MessageId", "Score"} <= set(table.columns) or table["MessageId"].is_duplicated().any():
        raise DataError(f"{path}: needs the columns MessageId, each id once, and Score")
    return table


def require_matched_accounts(store: Store, run_id: str, version: str) -> None:
    """These are the accounts of the match in force."""
    with store.transaction() as tx:
        training = RunRecords(tx, run_id)
        matched = training.of_epoch(training.find_json("key epoch", 0)).get("account file")
    if matched.decode() != version:
        raise DataError(
            f"{store.party}: the account file of the test split is not the one matched last"
        )


def compare_votes(
    scored: ScoredData,
    history: pl.DataFrame,
    forest: Forest,
    *,
    red_labels: NDArray[np.int8],
    green_labels: NDArray[np.int8],
    own: DetectionAtHand,
) -> tuple[Comparison, ...]:
    """Every vote: of each side, if the predictions have details, and the scores they lead to."""
    rows = scoring_rows(scored.transactions, history, forest, own.local)
    schema = {"Bank": pl.String, "Account": pl.String}
    keys = pl.DataFrame(rows.keys, schema=schema, orient="row")
    oracle = TrustedThirdParty(forest, joined_atoms(keys, scored.accounts, forest.schema))
    votes = oracle.votes(rows.codes, rows.key_of, red_labels, green_labels)
    ours = in_order(scored.predictions, rows.message_ids)
    score = own.scores(scored.combiner, rows, votes.sides)
    if score is None:
        score = votes.total / forest.sizes.n_trees
    # The last bits of a probability depend on the machine's arithmetic.
    equal = np.isclose(ours["Score"].to_numpy(), score, rtol=1e-9, atol=1e-12)
    compared = [Comparison("scores", int(equal.sum()), len(score))]
    for name, theirs in zip(VOTES, (votes.green, *votes.sides.T), strict=True):
        if name in ours.columns:
            what = name.removesuffix("Votes").lower() + " votes"
            compared.append(Comparison.of(what, ours[name].to_numpy(), theirs))
    return tuple(compared)
