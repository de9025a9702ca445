"""What the payment network believes about records: a chance of each class, from all that it has.

A record is of one of the schema's classes, or absent; that is the last column here.  The attacker
begins with the true share of each class among all records that it knows of, which is more than
anybody would tell it.  Evidence multiplies chances, and a bit rules classes out; several runs add
up.  Then it names the most likely records, as many as it expects there to be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.attack.findings import Finding
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.schema import Absent, Schema

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ABSENT = -1
"""As a class: no holder has such a record."""
_NEVER = 1e-12


class Belief:
    """About the records whose true class is given, to be compared with it."""

    def __init__(self, schema: Schema, class_of: Mapping[bytes, int]) -> None:
        self._schema = schema
        self._row = {account: row for row, account in enumerate(class_of)}
        n_classes = len(schema.record.classes)
        self._truth = np.array(list(class_of.values()), np.int64) % (n_classes + 1)
        n_of_class = np.bincount(self._truth, minlength=n_classes + 1)
        self.prior: Floats = np.maximum(n_of_class / max(len(self._truth), 1), _NEVER)
        """(classes + 1,)"""
        self._log = np.tile(np.log(self.prior), (len(self._truth), 1))
        names = ["", *schema.record.kind_names]
        kinds = [names.index(schema.record.kind_of(one)) for one in schema.record.classes[1:]]
        self.kind_of: Integers = np.array([0, *kinds, len(names)])
        """(classes + 1,): 0 is ordinary, the last one absent."""

    def add(self, accounts: Sequence[bytes], log_likelihood: Floats) -> None:
        """Evidence, (accounts, classes + 1); of accounts that are not known here it is dropped."""
        rows = np.array([self._row.get(one, -1) for one in accounts], np.int64)
        np.add.at(self._log, rows[rows >= 0], log_likelihood[rows >= 0])

    def add_bits(
        self,
        accounts: Sequence[bytes],
        bits: NDArray[np.int8],
        sets: Sequence[AskedSet],
        absent: Absent | None,
    ) -> None:
        """Answers, (accounts, sets): 0, 1, or -1 for none."""
        for asked, column in zip(sets, bits.T, strict=True):
            inside = self.members(asked, absent)
            wrong = (column[:, np.newaxis] >= 0) & (column[:, np.newaxis] != inside)
            self.add(accounts, np.where(wrong, np.log(_NEVER), 0.0))

    def members(self, asked: AskedSet, absent: Absent | None) -> NDArray[np.bool_]:
        """(classes + 1,): what is in a set of atoms."""
        atoms = np.array([*self._schema.atom_of_class(absent), ABSENT])
        return np.where(atoms == ABSENT, asked.absent, np.isin(atoms, asked.atoms))

    def chances(self) -> Floats:
        """(records, classes + 1)"""
        chance = np.exp(self._log - self._log.max(axis=1, keepdims=True))
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def knows(self, accounts: Sequence[bytes]) -> NDArray[np.bool_]:
        """Whether this is about them."""
        return np.array([one in self._row for one in accounts], np.bool_)

    def chances_of(self, accounts: Sequence[bytes]) -> Floats:
        """(accounts, classes + 1)"""
        return self.chances()[[self._row[one] for one in accounts]]

    def truth_of(self, accounts: Sequence[bytes]) -> Integers:
        """The class of each."""
        return self._truth[[self._row[one] for one in accounts]]

    def findings(self, groups: Mapping[str, Collection[bytes]]) -> Iterator[Finding]:
        """About groups of records, by what they are called: what they are, and who has them."""
        by_class, n_kinds = self.chances(), int(self.kind_of.max()) + 1
        chance = np.stack(
            [by_class[:, self.kind_of == kind].sum(axis=1) for kind in range(n_kinds)], axis=1
        )
        truth = self.kind_of[self._truth]
        odd = np.stack([chance[:, 0], 1 - chance[:, 0]], axis=1)
        for name, accounts in groups.items():
            here = np.array([self._row[one] for one in accounts if one in self._row], np.int64)
            here.sort()
            for target, of_target, wanted, true in (
                (f"which {name} are not ordinary", odd, range(1, 2), np.minimum(truth, 1)),
                (f"the class of {name}", chance, range(1, n_kinds - 1), truth),
                (f"which {name} no {{holder}} has", chance, range(n_kinds - 1, n_kinds), truth),
            ):
                if len(here):
                    yield from _named(of_target[here], true[here], list(wanted)).findings(target)


@dataclass(frozen=True)
class _Named:
    """How it went to name records of some kinds."""

    right: int
    named: int
    wanted: int
    n: int

    def findings(self, target: str) -> tuple[Finding, Finding]:
        """Without the run, as many would have been named at random."""
        return (
            Finding(
                attacker="lead",
                target=target,
                measure="share recognised",
                found=self.right / max(self.wanted, 1),
                guess=self.named / self.n,
                n=self.wanted,
                note="" if self.wanted else "there are none",
            ),
            Finding(
                attacker="lead",
                target=target,
                measure="precision",
                found=self.right / max(self.named, 1),
                guess=self.wanted / self.n,
                n=self.named,
                note="" if self.named else "none were named",
            ),
        )


def _named(chance: Floats, truth: Integers, wanted: Sequence[int]) -> _Named:
    """`chance`: (records, kinds).  A record is named right if it is of the likeliest of the wanted
    kinds."""
    of_wanted = chance[:, wanted]
    score = of_wanted.sum(axis=1).round(9)  # equally likely ones stay so
    # Those are taken in any order, the same each time: an attack on a run has one result.
    any_order = np.random.default_rng(0).permutation(len(score))
    named = np.lexsort((any_order, -score))[: round(score.sum())]
    guess = np.array(wanted)[of_wanted[named].argmax(axis=1)]
    right = int((truth[named] == guess).sum())
    return _Named(right, len(named), int(np.isin(truth, wanted).sum()), len(truth))
