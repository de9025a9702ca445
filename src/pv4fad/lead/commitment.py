"""A commitment to what a run counts: public in run.json, opened by the payment network's nonce.

Who is later given the payment network's data and nonce can check that these accounts, cells, sets
and trees were counted, and no others.
"""

from __future__ import annotations

import hashlib
import json

from pv4fad.errors import ParameterError
from pv4fad.forest.forest_file import NONCE_BYTES, to_document
from pv4fad.protocol.propose.inputs import TrainingInput

_PURPOSE = b"pv4fad counted, version 1"


def commitment(training: TrainingInput, nonce: bytes) -> bytes:
    """Binding, and hiding as long as the nonce is secret and random.

    Without the nonce a bank could try likely trees; there are not many.
    """
    if len(nonce) != NONCE_BYTES:
        raise ParameterError(f"a commitment needs a nonce of {NONCE_BYTES} bytes")
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
    digest = hashlib.sha256(_PURPOSE + nonce)
    # Which account of a table has which number decides who is counted.
    numbers = (tables[table_id].keys for table_id in sorted(tables))
    arrays = (counts.start, counts.key, counts.weight, counts.n_path, *numbers)
    for part in (canonical.encode(), *(one.tobytes() for one in arrays)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
