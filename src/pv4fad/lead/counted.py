"""A digest of what a run counts: with another account, cell, set or tree it is another."""

from __future__ import annotations

import hashlib
import json

from pv4fad.forest.forest_file import to_document
from pv4fad.protocol.propose.inputs import TrainingInput


def counted_digest(training: TrainingInput) -> str:
    """Of what the payment network brings to a run."""
    counts, trees, tables = training.counts, training.trees, training.tables
    structure = {
        "sets": training.sets,
        "forest": None if trees is None else to_document(trees.forest),
        "accounts": {
            table_id: hashlib.sha256(b"\n".join(accounts.ids)).hexdigest()
            for table_id, accounts in tables.items()
        },
    }
    canonical = json.dumps(structure, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256()
    # Which account of a table has which number decides who is counted.
    numbers = (tables[table_id].keys for table_id in sorted(tables))
    arrays = (counts.start, counts.key, counts.weight, counts.n_path, *numbers)
    for part in (canonical.encode(), *(array.tobytes() for array in arrays)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
