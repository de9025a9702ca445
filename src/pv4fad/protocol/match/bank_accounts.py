"""A bank's accounts, and how they lie in the bins of a table (protocol.md §3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.hashing.keyed import hash_accounts, tree_of
from pv4fad.hashing.placement import BankLayers
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.schema import Schema


@dataclass(frozen=True)
class BankRecords:
    """A bank's accounts: id with and without the bank's name, and the class; no id twice."""

    qualified_ids: tuple[bytes, ...] = field(repr=False)
    bare_ids: tuple[bytes, ...] = field(repr=False)
    classes: NDArray[np.int16] = field(repr=False)
    """(accounts,): numbers into the schema's classes."""
    schema: Schema = field(repr=False)
    fingerprint: str
    """Of the version of the records."""


@dataclass(frozen=True)
class BankTable:
    """The bank's accounts hashed for one table."""

    bins: BankLayers
    words: NDArray[np.uint64] = field(repr=False)
    atoms: NDArray[np.int16] = field(repr=False)

    @classmethod
    def of(cls, records: BankRecords, parameters: RunParameters, plan: TablePlan) -> BankTable:
        ids = records.bare_ids if plan.broadcast else records.qualified_ids
        hashes = hash_accounts(ids, parameters.hash_key)
        trees = tree_of(records.bare_ids, parameters.sizes.n_trees)
        bins = BankLayers.of_accounts(hashes, trees, plan.layout)
        if bins.n_layers().max() > parameters.max_layers(plan):
            raise ParameterError(
                f"table {plan.table_id}: a bin holds more accounts than planned (probability "
                "2^-40): start the run again with a new hash key"
            )
        atom_of = np.array(records.schema.atom_of_class(parameters.absent), np.int16)
        return cls(bins, parameters.code.encode(hashes.tags), atom_of[records.classes])

    def layers(self, block: int) -> tuple[NDArray[np.uint64], NDArray[np.int16]]:
        """Codewords (layers, bins), and atoms, -1 where no account is, both (layers, bins)."""
        accounts = self.bins.layers_of_block(block)
        # Account −1 reads the last row: an extra one that stands for no account.
        words = np.append(self.words, np.uint64(0))[accounts]
        return words, np.append(self.atoms, np.int16(-1))[accounts]
