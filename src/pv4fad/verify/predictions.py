"""A file of predictions compared with what a trusted third party predicts (protocol.md §9).

    bits      every answer about an account that the payment network holds, against a plain join
    alerts    the same rule, with answers from that join
    votes     of the paper's model with sealed labels: of each side, and what they add up to

Decisions of the paper's model are judged side by side; how often that differs from the joint vote
is counted as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.evidence.trusted import trusted_bits
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.lead.data import bank_directory, load_rows
from pv4fad.lead.paper_model import vote_columns, vote_table
from pv4fad.lead.rows import new_rows
from pv4fad.lead.score import judge_of
from pv4fad.lead.scoring_job import JobNotes
from pv4fad.payments.challenge import read_partition
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import Trees
from pv4fad.protocol.propose.state import AccountFile
from pv4fad.protocol.state import with_keys_in_use
from pv4fad.run.predictions import in_order
from pv4fad.run.scoring_record import ScoringRecord, require_run
from pv4fad.schema import Schema
from pv4fad.store.records import Records
from pv4fad.store.store import Store
from pv4fad.verify.comparison import Comparison, joined_atoms


@dataclass(frozen=True)
class ScoredData:
    """Transactions, the banks' accounts when they were scored, and what was predicted."""

    transactions: pl.DataFrame = field(repr=False)
    accounts: Mapping[str, pl.DataFrame] = field(repr=False)
    predictions: pl.DataFrame = field(repr=False)
    record: ScoringRecord

    @classmethod
    def read(
        cls,
        schema: Schema,
        split: Path,
        accounts: Mapping[str, pl.DataFrame],
        predictions: Path,
        run_id: str,
    ) -> ScoredData:
        """A test split, and the file that `pv4fad score` made for it with this run."""
        source = read_partition(split).transactions
        transactions = load_rows(schema, source, labels_required=False)
        id_column = schema.rows.id
        table = _read(predictions, id_column)
        if set(table[id_column]) != set(transactions[id_column]):
            raise DataError(f"{predictions}: not one prediction for each row of {source}")
        record = require_run(predictions, run_id)
        if record is None:
            raise DataError(
                f"{predictions}: their origin cannot be verified: the record file is missing"
            )
        columns = vote_columns(schema) if record.scoring == "votes" else ("Alert", "Level")
        missing = [name for name in columns if name not in table.columns]
        if missing:
            raise DataError(f"{predictions}: has no column {missing[0]}")
        return cls(transactions, accounts, table, record)


def _read(path: Path, id_column: str) -> pl.DataFrame:
    try:
        table = pl.read_csv(
            path,
            schema_overrides={id_column: pl.String, "Score": pl.Float64, "Reasons": pl.String},
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}: no readable predictions: {error}") from None
    if not {id_column, "Score"} <= set(table.columns) or table[id_column].is_duplicated().any():
        raise DataError(f"{path}: needs the columns {id_column}, each id once, and Score")
    return table


def require_matched_accounts(store: Store, run_id: str, version: str) -> None:
    """These are the accounts of the match in force."""
    with store.transaction() as tx:
        matched = with_keys_in_use(Records(tx, run_id)).get(AccountFile)
    if matched.fingerprint != version:
        raise DataError(f"{store.party}: the records of the test split are not those matched last")


def compare_decisions(
    schema: Schema,
    scored: ScoredData,
    history: pl.DataFrame,
    parameters: RunParameters,
    store: Store,
) -> tuple[Comparison, ...]:
    """Every bit that is known, and every prediction."""
    payments, record = new_rows(schema, scored.transactions, history), scored.record
    directory = bank_directory(scored.accounts)
    judge = judge_of(store, parameters, payments, directory, record.alert_share)
    if judge is None or record.learned is None:
        raise DataError("these predictions are votes, and the run answers questions")
    atom_of = joined_atoms(schema, payments.key_table(), scored.accounts, parameters.absent)
    truth = np.stack(
        [trusted_bits(atom_of, asked.atoms, absent=asked.absent) for asked in judge.sets], axis=1
    )
    notes = JobNotes(store, parameters.run_id)
    known = notes.known_bits(payments.keys, len(judge.sets))
    answered = known != UNKNOWN
    # A scoring that was not the first since the match knew some answers before.
    first = record.records_known == record.learned.records_asked
    if not first and notes.n_known()[0] != record.records_known:
        raise DataError(
            "other rows were scored after these, so what was known at the time cannot be"
            " reconstructed"
        )
    judge.begin(np.full_like(known, UNKNOWN) if first else known)
    for number in range(len(judge.sets)):
        accounts = judge.ask(number)
        judge.take(number, accounts, truth[accounts, number].astype(np.int64))
    ours, theirs = in_order(scored.predictions, payments.ids), judge.table()
    return (
        Comparison.of("bits", known[answered], truth[answered]),
        Comparison.of("alerts", *(_column(table, "Alert") for table in (ours, theirs))),
        Comparison.of("levels", *(_column(table, "Level") for table in (ours, theirs))),
        _scores(ours, theirs),
    )


def compare_votes(
    schema: Schema,
    scored: ScoredData,
    history: pl.DataFrame,
    trees: Trees,
    red_labels: NDArray[np.int8],
) -> tuple[Comparison, ...]:
    """Every vote of each side, and the scores they lead to."""
    payments = new_rows(schema, scored.transactions, history)
    forest = trees.forest
    atoms = joined_atoms(schema, payments.key_table(), scored.accounts, None)
    oracle = TrustedThirdParty(forest, atoms)
    codes = forest.route(payments.features.values)
    votes = oracle.votes(codes, payments.key_of, red_labels, trees.green_labels)
    ours = in_order(scored.predictions, payments.ids)
    theirs = vote_table(schema, payments, trees, codes, votes.sides)
    return (
        _scores(ours, theirs),
        *(
            Comparison.of(name, _column(ours, name), _column(theirs, name))
            for name in vote_columns(schema)
        ),
    )


def _column(table: pl.DataFrame, name: str) -> NDArray[np.integer]:
    return table[name].to_numpy()


def _scores(ours: pl.DataFrame, theirs: pl.DataFrame) -> Comparison:
    # The last bits of a probability depend on the machine's arithmetic.
    ours_, theirs_ = ours["Score"].to_numpy(), theirs["Score"].to_numpy()
    equal = np.isclose(ours_, theirs_, rtol=1e-9, atol=1e-12)
    return Comparison("scores", int(equal.sum()), len(theirs_))
