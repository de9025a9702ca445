"""What the payment network brings to a run, and the parameters that it proposes for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import CountedSets
from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.pairs import GroupCounts
from pv4fad.forest.structure import Forest
from pv4fad.hashing.keyed import new_hash_key
from pv4fad.privacy.epsilon import Epsilon, epsilon_text
from pv4fad.protocol.parameters import (
    NOT_OF_THE_MODEL,
    Mode,
    NoiseMode,
    RunParameters,
    count_sizes,
)
from pv4fad.protocol.tables import TableAccounts, padded, plan_tables
from pv4fad.randomness import secret_bytes
from pv4fad.schema import Absent, Schema


@dataclass(frozen=True)
class Trees:
    """The paper's model: the forest, and the labels of the leaves that need no bank."""

    forest: Forest = field(repr=False)
    green_labels: NDArray[np.int8] = field(repr=False)


@dataclass(frozen=True)
class TrainingInput:
    """What the payment network brings: what its accounts count in each group or cell."""

    counts: GroupCounts = field(repr=False)
    sets: tuple[tuple[AtomSet, ...], ...] = field(repr=False)
    """The sets whose sums are wanted, for each group or cell."""
    tables: dict[str, TableAccounts] = field(repr=False)
    trees: Trees | None = field(default=None, repr=False)
    """None: the default model, whose groups are cells."""


def match_parameters(
    model: RunParameters,
    tables: Mapping[str, TableAccounts],
    bank_accounts: Mapping[str, int],
    epoch: int,
) -> tuple[RunParameters, dict[str, TableAccounts]]:
    """The parameters of a further match for a model, and its tables under their new names."""
    named = {f"{table_id}@{epoch}": accounts for table_id, accounts in tables.items()}
    plans = plan_tables(tables, bank_accounts, model.sizes)
    parameters = RunParameters(
        **model.model_dump(exclude=NOT_OF_THE_MODEL),
        banks={bank: padded(n) for bank, n in bank_accounts.items()},
        tables=tuple(
            plan.model_copy(update={"table_id": f"{plan.table_id}@{epoch}"}) for plan in plans
        ),
        hash_key=new_hash_key(),
        purpose="matching",
        model_modulus=model.plain_modulus,
    )
    return parameters, named


def run_parameters(
    data: TrainingInput,
    bank_accounts: Mapping[str, int],
    schema: Schema,
    *,
    bound: int,
    epsilon: Epsilon,
    noise: NoiseMode,
    honest_banks: int,
    mode: Mode,
    counted: CountedSets | None = None,
    absent: Absent | None = None,
    metered: bool = False,
    commitment: str = "",
) -> RunParameters:
    """The parameters of a new run.  The hash key is drawn here: the accounts are fixed by now."""
    if data.trees is not None:
        sizes = data.trees.forest.sizes
    elif counted is not None and absent is not None:
        n_kinds = len(schema.record.kind_names)
        sizes = count_sizes(counted, absent, n_kinds, schema.n_sides)
    else:
        raise ParameterError("a run needs trees, or classes to count")
    return RunParameters(
        run_id=secret_bytes(8).hex(),
        banks={bank: padded(n) for bank, n in bank_accounts.items()},
        tables=plan_tables(data.tables, bank_accounts, sizes),
        schema_digest=schema.digest,
        sizes=sizes,
        bound=bound,
        epsilon=epsilon_text(epsilon),
        noise=noise,
        honest_banks=honest_banks,
        mode=mode,
        counted=counted,
        absent=absent,
        metered=metered,
        hash_key=new_hash_key(),
        commitment=commitment,
    )
