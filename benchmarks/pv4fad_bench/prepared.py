"""The first stage of `pv4fad bench utility`: what a study needs of one generated data set.

Minutes of work that depend on neither ε nor noise: data, features, local model, honest scores,
joined model, the paper's model.  The result is arrays, in a file per data set if there is a folder
for them; the study itself takes seconds then.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.fitting import fit_local_model
from pv4fad.detection.local_scale import honest_sample
from pv4fad.errors import DataError
from pv4fad.lead.data import bank_directory
from pv4fad.lead.rows import account_index, inside_federation
from pv4fad.payments.features import compute_features
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.payments.schema import BENEFICIARY, FLAG_CODES, LABEL, SCHEMA
from pv4fad.tables.features import FeatureTable
from pv4fad.tables.sides import Sides
from pv4fad.verify.comparison import joined_classes
from pv4fad_bench.paper_model import paper_rows

BANKS = 25

Integers = NDArray[np.int64]
Labels = NDArray[np.int8]
Bools = NDArray[np.bool_]
Scores = NDArray[np.float32]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Setting:
    """What is studied."""

    transactions: int
    difficulty: Difficulty


@dataclass(frozen=True)
class Prepared:
    """One data set.  Of training: y, key_of, …; of the test period: labels, new_key_of, …"""

    y: Labels = field(repr=False)
    key_of: Integers = field(repr=False)  # (rows, 2)
    bare_of: Integers = field(repr=False)
    atoms_tr: Integers = field(repr=False)  # the class of each key's record, -1 for none
    first_tr_alone: Bools = field(repr=False)
    inside_tr: Bools = field(repr=False)
    ts: Integers = field(repr=False)
    chosen: Integers = field(repr=False)  # rows with
    sample_scores: Scores = field(repr=False)  # honest local scores
    scale: NDArray[np.float64] = field(repr=False)  # offset, slope
    labels: Labels = field(repr=False)
    new_key_of: Integers = field(repr=False)
    atoms_new: Integers = field(repr=False)
    is_first: Bools = field(repr=False)
    inside_new: Bools = field(repr=False)
    map: Integers = field(repr=False)  # the key in training of each new key, -1 for none
    alone: Scores = field(repr=False)
    joined: Scores = field(repr=False)
    paper: Mapping[str, NDArray[np.float64]] = field(repr=False)
    """The paper's model: scores by row of the study."""


_ARRAYS = tuple(one.name for one in fields(Prepared) if one.name != "paper")
_PAPER = "paper: "
STEPS = ("data", "features", "local model", "honest scores", "joined", "paper")


def prepared(setting: Setting, seed: int, folder: Path | None, tell: Tell) -> Prepared:
    """From its file, if there is one; otherwise made, and kept in the folder if there is one."""
    if folder is None:
        return prepare(setting, seed, tell)
    path = folder / f"{setting.difficulty.value}-{seed}-{setting.transactions}.npz"
    if path.exists():
        return read(path)
    found = prepare(setting, seed, tell)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished.npz")
    arrays: dict[str, Any] = {name: getattr(found, name) for name in _ARRAYS}
    arrays |= {_PAPER + name: scores for name, scores in found.paper.items()}
    np.savez_compressed(unfinished, **arrays)
    unfinished.rename(path)
    return found


def read(path: Path) -> Prepared:
    """DataError if it is no file of a prepared data set."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays: dict[str, Any] = {name: file[name] for name in _ARRAYS}
            papers = [name for name in file.files if name.startswith(_PAPER)]
            paper = {name.removeprefix(_PAPER): file[name] for name in papers}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise DataError(f"{path}: is damaged, or holds no prepared data; remove it") from None
    return Prepared(**arrays, paper=paper)


def prepare(setting: Setting, seed: int, tell: Tell) -> Prepared:
    """From the generator; the seed also decides everything else that is drawn."""
    tell("data")
    tables = generate_tables(Settings(setting.transactions, BANKS, setting.difficulty, seed))
    train, test = tables.train.transactions, tables.test.transactions
    records = records_of(tables.accounts)
    y, labels = (one[LABEL].to_numpy().astype(np.int8) for one in (train, test))
    if not labels.any():
        raise DataError(
            f"{setting.difficulty.value}, seed {seed}: none of the {len(labels):,} test"
            " transactions is anomalous; study more transactions, or other seeds"
        )
    tell("features")
    columns = [name for name in train.columns if name != LABEL]
    both = pl.concat([train.select(columns), test.select(columns)])
    features = compute_features(both)  # what comes later changes nothing before it
    known, new = (
        FeatureTable(features.names, rows)
        for rows in (features.values[: train.height], features.values[train.height :])
    )
    known_sides, sides = Sides(SCHEMA, train), Sides(SCHEMA, both)
    keys, index = account_index(known_sides, 1)
    new_keys, new_index = account_index(sides, 1, train.height)
    atoms, new_atoms = (joined_classes(one, records) for one in (keys, new_keys))
    tell("local model")
    groups = index.key_of[:, BENEFICIARY]
    fitted = fit_local_model(known.values, known.names, y, groups, seed=seed)
    tell("honest scores")
    sample = honest_sample(fitted, known.values, y, seed)
    tell("joined")
    joined = fit_local_model(
        _with_classes(known, atoms[index.key_of]),
        (*known.names, *(f"{side}_class" for side in SCHEMA.side_names)),
        y,
        groups,
        seed=seed,
    ).model
    tell("paper")
    paper = paper_rows(train, test, records, (known, new), seed)
    directory = bank_directory(records)
    in_training = new_keys.join(
        keys.with_row_index("key"),
        on=keys.columns,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["key"]
    return Prepared(
        y=y,
        key_of=index.key_of,
        bare_of=index.bare_of,
        atoms_tr=atoms,
        first_tr_alone=known_sides.first_dealings(),
        inside_tr=inside_federation(keys, directory),
        ts=train["Timestamp"].cast(pl.Int64).to_numpy(),
        chosen=sample.rows,
        sample_scores=sample.scores,
        scale=np.array([sample.scale.offset, sample.scale.slope]),
        labels=labels,
        new_key_of=new_index.key_of,
        atoms_new=new_atoms,
        is_first=sides.first_dealings()[train.height :],
        inside_new=inside_federation(new_keys, directory),
        map=in_training.cast(pl.Int64).fill_null(-1).to_numpy(),
        alone=fitted.model.score(new.values),
        joined=joined.score(_with_classes(new, new_atoms[new_index.key_of])),
        paper={name: row.scores for name, row in paper.items()},
    )


def records_of(accounts: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Of each bank, Holder, Id, Class; classes are in the order of the flags."""
    names = SCHEMA.record.classes
    of_flag = pl.col("Flags").cast(pl.String).replace_strict(FLAG_CODES, names)
    return {
        bank: frame.select(
            Holder=pl.col("Bank").cast(pl.String),
            Id="Account",
            Class=of_flag.cast(pl.Enum(names)),
        )
        for bank, frame in accounts.items()
    }


def _with_classes(features: FeatureTable, classes: Integers) -> NDArray[np.float32]:
    return np.hstack([features.values, classes.astype(np.float32)])
