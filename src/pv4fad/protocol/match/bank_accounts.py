"""A bank's accounts, and how they lie in the bins of a table (protocol.md §3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.hashing.keyed import hash_accounts, tree_of
from pv4fad.hashing.placement import BankBins
from pv4fad.hashing.tags import TAG_MODULUS, tags_of
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.randomness import secret_residues
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

    bins: BankBins = field(repr=False)
    tags: NDArray[np.uint64] = field(repr=False)
    atoms: NDArray[np.int16] = field(repr=False)

    @classmethod
    def of(cls, records: BankRecords, parameters: RunParameters, plan: TablePlan) -> BankTable:
        ids = records.bare_ids if plan.broadcast else records.qualified_ids
        hashes = hash_accounts(ids, parameters.hash_key)
        trees = tree_of(records.bare_ids, parameters.sizes.n_trees)
        bins = BankBins.of_accounts(hashes, trees, plan.layout)
        if bins.largest_load() > parameters.largest_load(plan):
            raise ParameterError(
                f"table {plan.table_id}: a bin holds more records than planned (probability "
                "2^-40): start the run again with a new hash key"
            )
        atom_of = np.array(records.schema.atom_of_class(parameters.absent), np.int16)
        tags, atoms = tags_of(hashes), atom_of[records.classes]
        # A record that no atom stands for is as good as absent.  It keeps its bins, so that loads
        # and times do not depend on classes, under a random tag that no account has.
        not_provided = atoms < 0
        tags[not_provided] = secret_residues(TAG_MODULUS, int(not_provided.sum()))
        return cls(bins, tags, np.maximum(atoms, np.int16(0)))

    def block(self, block: int) -> tuple[NDArray[np.uint64], NDArray[np.int16]]:
        """Tags, and atoms, -1 where no account is, both (largest load, bins)."""
        accounts = self.bins.accounts_of_block(block)
        # Account −1 reads the last row: an extra one that stands for no account.
        tags = np.append(self.tags, np.uint64(0))[accounts]
        return tags, np.append(self.atoms, np.int16(-1))[accounts]
