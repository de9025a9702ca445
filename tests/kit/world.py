"""Whole federations in memory, from the special cases of the forest's tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
from tests.kit.forest_case import N_CLASSES, OUTSIDER, UNKNOWN, Case, make_case

from pv4fad.forest.pairs import (
    AccountIndex,
    CountConfig,
    KeptPairs,
    choose_pairs,
    green_labels,
    group_counts,
)
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.hashing.keyed import tree_of
from pv4fad.hashing.table_size import TableLayout
from pv4fad.lead.federation import Federation
from pv4fad.lead.simulate import RELIES_ON_ALL
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.ledger import set_limit
from pv4fad.protocol.compare.state import BankLabelShare, LabelShare
from pv4fad.protocol.count.state import BankSums, OwnSums
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, Trees, match_parameters, run_parameters
from pv4fad.protocol.propose.state import OwnKeys, StoredTrees
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.protocol.score.inputs import ScoringInput
from pv4fad.protocol.state import with_keys_in_use
from pv4fad.protocol.tables import assign_tables
from pv4fad.store.records import Records, stored
from pv4fad.store.store import MemoryStore, Store
from pv4fad.workers import WorkerPool

BICS = ("AAAADEFF", "BBBBFRPP", "CCCCGB2L", "DDDDUS33", "EEEEJPJT")
OUTSIDER_BIC = "ZZZZCHZZ"
MODES = ("routed", "broadcast", "mixed")


def bank_name(bank: int) -> str:
    return f"bank{bank + 1:02d}"


def bare_id(bare: int) -> str:
    return f"ACC{bare:04d}"


class RestartableBank(Bank):
    """A bank that can be started again with what it was given, as a process can."""

    def __init__(self, name: str, store: Store, pool: WorkerPool, **given: Any) -> None:
        super().__init__(name, store, pool, **given)
        self.given = given

    def replace_records(self, records: BankRecords) -> None:
        super().replace_records(records)
        self.given |= {"records": records}

    def restarted(self, store: Store, **changed: Any) -> Self:
        """A new process around a store; `changed`: what it is given instead."""
        return type(self)(self.name, store, self.pool, **self.given | changed)


class KnownNoiseBank(RestartableBank):
    """A bank whose noise a test chooses.  Production code has no way to choose it."""

    chosen_noise: np.ndarray

    def _noise(self, parameters: RunParameters) -> np.ndarray:
        return self.chosen_noise


@dataclass
class World:
    """A case of the forest's tests with real parties around it."""

    case: Case
    pairs: KeptPairs
    oracle: TrustedThirdParty
    data: TrainingInput
    federation: Federation
    parameters: RunParameters

    def train(self, observer=None) -> None:
        self.federation.train(self.parameters, self.data, observer)

    def record(self, party, kind, *place, epoch: int = 0):
        """A record of a party."""
        return stored(party.store, self.parameters.run_id, kind, *place, epoch=epoch)

    def bank_records(self, bank: int) -> BankRecords:
        """The account file of a bank."""
        return bank_records(self.case, bank)

    def labels(self) -> np.ndarray:
        """The labels, from the shares of payment network and banks, or as released."""
        if self.parameters.mode == "released":
            labels = self.federation.payment_network.labels(self.parameters.run_id)
        else:
            p = self.record(self.federation.payment_network, LabelShare).p
            b = self.record(self.federation.banks[0], BankLabelShare).b
            labels = (p + b) % np.uint64(self.parameters.plain_modulus)
        return labels.reshape(self.case.forest.sizes.n_groups, -1)

    def inject_noise(self, rng: np.random.Generator) -> np.ndarray:
        """Noise per sum, split over the banks: ties, changed signs, much and none of it."""
        counts = self.oracle.counts(self.pairs)[:, :-1].ravel()
        change = rng.integers(5, size=len(counts))
        much = rng.integers(-300, 301, len(counts))
        noise = np.select(
            [change == 0, change == 1, change == 2, change == 3],
            [-counts, -2 * counts - 1, 1 - counts, much],
            0,
        )
        shares = rng.integers(-1000, 1001, (len(self.federation.banks), len(counts)))
        shares[-1] = noise - shares[:-1].sum(axis=0)
        for bank, share in zip(self.federation.banks, shares, strict=True):
            bank.chosen_noise = share
        return noise

    def counts(self) -> np.ndarray:
        """Σ_j (p_j − q_j), centred: what the counts are shared as."""
        t = self.parameters.plain_modulus
        p = self.record(self.federation.payment_network, OwnSums).p.astype(np.int64)
        q = sum(self.record(bank, BankSums).q.astype(np.int64) for bank in self.federation.banks)
        return (p - q.reshape(p.shape) + t // 2) % t - t // 2


def addressed(case: Case, mode: str) -> Case:
    """The case with its keys as a payment network would have them that routes, or does not."""
    rekeyed = {
        "routed": lambda bank, bare: (OUTSIDER if bank == UNKNOWN else bank, bare),
        "broadcast": lambda bank, bare: (UNKNOWN, bare),
        "mixed": lambda bank, bare: (bank, bare),
    }[mode]
    wanted = [rekeyed(*key) for key in case.keys]
    keys = sorted(set(wanted))
    number = {key: index for index, key in enumerate(keys)}
    key_of = np.array([number[key] for key in wanted])[case.accounts.key_of]
    bare_of = np.array([bare for _, bare in keys])
    n_bare = len(case.accounts.tree_of)
    trees = tree_of([bare_id(b).encode() for b in range(n_bare)], case.forest.sizes.n_trees)
    records = case.records
    if mode != "routed":  # broadcast needs ids that are unique over all banks
        records = {(k, b): a for (k, b), a in records.items() if k == 0 or b >= 3}
    accounts = AccountIndex(key_of, bare_of, trees)
    return replace(case, accounts=accounts, keys=keys, records=records)


def make_world(
    seed: int = 0,
    *,
    n_banks: int = 2,
    mode: str = "routed",
    n_sets: int = 1,
    epsilon: Epsilon = "none",
    noise: str = "none",
    honest_banks: int = 1,
    model: str = "sealed",
    bound: int = 3,
    bank_class: type[RestartableBank] = RestartableBank,
    pool: WorkerPool | None = None,
    store_of=MemoryStore,
    identity_of=Identity.generate,
    n_trees: int = 3,
    without_accounts: tuple[int, ...] = (),
    more_accounts: int = 0,
    n_declared: int | None = None,
    banks_at_once: int = 1,
    case: Case | None = None,
    train_rows: int | None = None,
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY,
) -> World:
    """`train_rows`: how many transactions the model learns from, and knows the accounts of.

    `without_accounts`: banks that take part and hold none; `more_accounts`: how many every other
    bank holds that the payment network has never seen; `n_declared`: for how many accounts each
    table is made, instead of for as many as there are.
    """
    if case is None:
        n_bare = 5 * n_trees  # as many accounts per tree, however many trees
        case = make_case(
            seed,
            n_banks=n_banks,
            n_sets=n_sets,
            n_trees=n_trees,
            n_bare=n_bare,
            n_transactions=8 * n_bare,
        )
    case = addressed(case, mode)
    held = {key: atoms for key, atoms in case.records.items() if key[0] not in without_accounts}
    for bank in set(range(n_banks)) - set(without_accounts):
        held |= unseen_accounts(bank, more_accounts)
    case = replace(case, records=held)
    config = CountConfig(bound=bound, class_weights=(1, 2))
    rows = slice(0, train_rows)
    used = np.unique(case.accounts.key_of[rows]) if train_rows else np.arange(len(case.keys))
    pairs = choose_pairs(
        case.forest,
        case.codes[rows],
        case.labels[rows],
        replace(case.accounts, key_of=case.accounts.key_of[rows]),
        config=config,
        rng=np.random.default_rng(seed),
    )
    bic_of = {UNKNOWN: None, OUTSIDER: OUTSIDER_BIC} | dict(enumerate(BICS))
    tables = assign_tables(
        [(bic_of[case.keys[k][0]], bare_id(case.keys[k][1])) for k in used],
        {BICS[bank]: bank_name(bank) for bank in range(n_banks)},
        case.forest.sizes.n_trees,
        broadcast=mode != "routed",
    )
    tables = {name: replace(one, keys=used[one.keys]) for name, one in tables.items()}
    if mode == "broadcast":
        tables = {"broadcast": tables["broadcast"]}
    counts = group_counts(case.forest, pairs, len(case.keys))
    green = green_labels(case.forest, case.codes[rows], case.labels[rows], config.class_weights)
    sets = tuple(group.sets for group in case.forest.groups)
    data = TrainingInput(counts, sets, tables, Trees(case.forest, green))
    records = {bank: bank_records(case, bank) for bank in range(n_banks)}
    parameters = run_parameters(
        data,
        {bank_name(bank): len(one.bare_ids) for bank, one in records.items()},
        SCHEMA,
        bound=bound,
        epsilon=epsilon,
        noise=noise,
        honest_banks=honest_banks,
        mode=model,
    )
    if n_declared is not None:
        parameters = with_larger_tables(parameters, n_declared)
    federation = make_federation(
        list(records.values()),
        parameters,
        bank_class=bank_class,
        pool=pool,
        store_of=store_of,
        identity_of=identity_of,
        banks_at_once=banks_at_once,
        layers_per_day=layers_per_day,
    )
    oracle = TrustedThirdParty(case.forest, case.atoms())
    return World(case, pairs, oracle, data, federation, parameters)


def make_federation(
    records: list[BankRecords],
    parameters: RunParameters,
    *,
    bank_class: type[RestartableBank] = RestartableBank,
    pool: WorkerPool | None = None,
    store_of=MemoryStore,
    identity_of=Identity.generate,
    banks_at_once: int = 1,
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY,
) -> Federation:
    """Parties of a run: every bank allows its ε once, and relies on as many banks as it needs."""
    pool = pool or WorkerPool(0)
    names = [bank_name(bank) for bank in range(len(records))]
    identities = {name: identity_of(name) for name in names}
    signing_keys = {name: one.public().signing_key for name, one in identities.items()}
    banks = []
    for name, mine in zip(names, records, strict=True):
        store = store_of(name)
        with store.transaction() as tx:
            set_limit(tx, parameters.exact_epsilon, datetime.now(UTC))
        banks.append(
            bank_class(
                name,
                store,
                pool,
                records=mine,
                identity=identities[name],
                signing_keys=signing_keys,
                policy=RELIES_ON_ALL,
                layers_per_day=layers_per_day,
            )
        )
    return Federation(
        PaymentNetwork(store_of("payment-network"), pool, banks_at_once),
        banks,
        Aggregator("aggregator", store_of("aggregator"), pool),
    )


def with_larger_tables(parameters: RunParameters, n_declared: int) -> RunParameters:
    """The same run with tables for so many accounts each."""
    layout = TableLayout.for_accounts(n_declared, parameters.sizes.n_trees)
    tables = tuple(plan.model_copy(update={"layout": layout}) for plan in parameters.tables)
    fields = {name: getattr(parameters, name) for name in RunParameters.model_fields}
    return RunParameters(**fields | {"tables": tables})


def unseen_accounts(bank: int, n: int) -> dict[tuple[int, int], int]:
    """Records with ids that are in no transaction."""
    atoms = np.random.default_rng(bank).integers(N_CLASSES, size=n)
    first = 10_000 * (1 + bank * n)
    return {(bank, first + i): one for i, one in enumerate(atoms.tolist())}


def bank_records(case: Case, bank: int) -> BankRecords:
    mine = sorted((bare, atoms) for (owner, bare), atoms in case.records.items() if owner == bank)
    ids = [bare_id(bare) for bare, _ in mine]
    return BankRecords(
        tuple(f"{BICS[bank]}|{one}".encode() for one in ids),
        tuple(one.encode() for one in ids),
        np.array([one for _, one in mine], np.int16),
        SCHEMA,
        f"version 1 of {bank_name(bank)}",
    )


def scoring_input(world: World, case: Case) -> ScoringInput:
    """Transactions of a case to score with the world's model."""
    bic_of = {UNKNOWN: None, OUTSIDER: OUTSIDER_BIC} | dict(enumerate(BICS))
    used, key_of = np.unique(case.accounts.key_of, return_inverse=True)
    keys = [(bic_of[case.keys[k][0]], bare_id(case.keys[k][1])) for k in used]
    return ScoringInput(case.codes, keys, key_of.reshape(-1, 2), layers_at_once=2)


def secret_key_of(bank: Bank, run_id: str) -> bytes:
    """The key that a bank answers queries with now."""
    with bank.store.transaction() as tx:
        return with_keys_in_use(Records(tx, run_id)).get(OwnKeys).secret


def match_accounts(world, keys, *, replace: bool) -> None:
    """A further match of these accounts: in addition to the others, or instead of them."""
    n_banks = len(world.federation.banks)
    tables = assign_tables(
        keys,
        {BICS[bank]: bank_name(bank) for bank in range(n_banks)},
        world.parameters.sizes.n_trees,
        broadcast="broadcast" in world.data.tables,
    )
    network = world.federation.payment_network
    epoch = network.next_epoch(world.parameters.run_id)
    accounts = {bank.name: bank.n_accounts for bank in world.federation.banks}
    parameters, named = match_parameters(world.parameters, tables, accounts, epoch)
    world.federation.match(parameters, named, replace=replace)


def check_equal_to_the_trusted_third_party(world, noise=None) -> None:
    counts = world.oracle.counts(world.pairs)
    labels = world.oracle.red_labels(counts, noise)
    assert np.array_equal(world.counts(), counts[:, :-1])
    assert np.array_equal(world.labels(), labels)
    assert labels.any()
    assert not labels.all()
    network = world.federation.payment_network
    green = world.oracle.green_labels(world.case.codes, world.case.labels, (1, 2))
    trees = world.record(network, StoredTrees).trees()
    assert np.array_equal(trees.green_labels, green)
    assert trees.forest == world.case.forest
