"""What is found with all data in one place: what a private run is held against.

This sees everything, rows, labels and records: it is for tests and demonstrations.  It does what
the lead does alone, with its local model and its own label history of accounts, but the local model
is given the class of every account as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.evidence.knowledge import own_hazard
from pv4fad.lead.data import bank_directory, load_split
from pv4fad.lead.evidence_model import prepare_evidence
from pv4fad.lead.rows import LeadData, new_rows
from pv4fad.lead.settings import TrainingSettings
from pv4fad.schema import Schema
from pv4fad.tables.features import FeatureTable, compute_features
from pv4fad.tables.sides import Sides
from pv4fad.verify.comparison import joined_classes

_SEED = 11


def joined_scores(schema: Schema, train: Path, test: Path) -> NDArray[np.float64]:
    """A score for each row of the test split, in its order."""
    known, new = load_split(schema, train), load_split(schema, test)
    if not new.records:
        raise DataError(f"{test}: has no records, so there is nothing to join")
    history, rows = known.rows, new.rows
    # An event that began in training keeps its holders, as in a private run.
    columns = [name for name in history.columns if name != schema.rows.label]
    both = pl.concat([history.select(columns), rows.select(columns)], how="vertical_relaxed")
    classes = _classes(schema, both, new.records)
    past = _with_classes(schema, compute_features(schema, history), classes[: history.height])
    features = compute_features(schema, rows.select(columns), history)
    present = _with_classes(schema, features, classes[history.height :])
    # No bank has a part in what is used of this.
    settings, directory = TrainingSettings(epsilon="none"), bank_directory(new.records)
    own = prepare_evidence(LeadData(schema, history, directory), settings, _SEED, past).own
    found = new_rows(schema, rows, history, present).evidence_rows(own.local, directory)
    local = own.knowledge.scale.log_odds(found.local_scores)
    return own_hazard(local, own.knowledge.history, found.is_first, found.stratum, found.hit)


def _with_classes(
    schema: Schema, features: FeatureTable, classes: NDArray[np.float64]
) -> FeatureTable:
    names = (f"{side}_class" for side in schema.side_names)
    values = np.hstack([features.values, classes]).astype(np.float32)
    return FeatureTable((*features.names, *names), values)


def _classes(
    schema: Schema, rows: pl.DataFrame, records: Mapping[str, pl.DataFrame]
) -> NDArray[np.float64]:
    """(rows, sides): the number of the class of each account, -1 where no bank has it."""
    sides = [joined_classes(keys, records) for keys in Sides(schema, rows).side_keys()]
    return np.stack(sides, axis=1).astype(np.float64)
