"""What asking live needs of the payment network's store, read once for the matches in force.

The shares, megabytes for each bank, go into a file without a name: the workers read them there, and
nothing is left of it when the service ends, however it ends.  They are ciphertexts of the banks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pv4fad.lead.judging import Judging
from pv4fad.protocol.live.network import LiveTables, read_shares, read_tables
from pv4fad.service.asking.worker import BankSetup
from pv4fad.store.records import Records
from pv4fad.store.store import Store


@dataclass(frozen=True)
class LiveModel:
    """A model that banks can be asked for, with what is known in this epoch."""

    judging: Judging = field(repr=False)
    tables: LiveTables = field(repr=False)
    setups: Mapping[str, BankSetup] = field(repr=False)
    shares: BinaryIO = field(repr=False)
    known: Mapping[bytes, NDArray[np.int8]] = field(repr=False)
    """(sets,) of accounts, by what is hashed of them: -1 unknown, 0 or 1."""


def read_model(
    store: Store,
    run_id: str,
    judging: Judging,
    known: Mapping[bytes, NDArray[np.int8]],
    folder: Path,
) -> LiveModel:
    """`folder`: on whose disk the file without a name takes its place."""
    with ExitStack() as opened:
        shares = opened.enter_context(tempfile.TemporaryFile(dir=folder))
        setups = {}
        with store.transaction() as tx:
            training = Records(tx, run_id)
            tables = read_tables(training, judging.sets)
            flood, coefficients = tables.flood, tables.coefficients
            for bank, public in tables.public.items():
                first_byte, n_blocks = shares.tell(), 0
                for of_block in read_shares(training, bank):
                    shares.writelines(of_block)
                    n_blocks += 1
                setups[bank] = BankSetup(public, flood, coefficients, first_byte, n_blocks)
        shares.flush()
        opened.pop_all()  # it stays open as long as the model is held
    return LiveModel(judging, tables, setups, shares, known)
