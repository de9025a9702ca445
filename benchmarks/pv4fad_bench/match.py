"""`pv4fad bench match`: the match as the parties run it, checked bin by bin.

A payment network and a bank, each with its store, exchange encoded messages in one process; only
what comes after the match is left out.  What they keep and send is compared with the plain truth
for every bin: u − s is the indicator of each atom, and E_j[s] decrypts to s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.keyed import hash_accounts
from pv4fad.hashing.placement import place
from pv4fad.he.keys import Decryptor
from pv4fad.he.ring import Ring
from pv4fad.protocol.count.steps import masked_products
from pv4fad.protocol.match.class_powers import of_classes
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    EncryptedTable,
    IndicatorPlanes,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    RemainderBits,
    ValueDigits,
)
from pv4fad.protocol.match.state import BankShares
from pv4fad.protocol.match.steps import (
    BlindedBlock,
    IndicatorsJob,
    OpenJob,
    blind_indicators,
    encrypt_digits,
    encrypt_planes,
    encrypt_powers,
    mask_distances,
    mask_values,
    open_block,
)
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.wire import Header
from pv4fad.store.store import MemoryStore
from pv4fad.workers import Workers
from pv4fad_bench.estimates import match_seconds
from pv4fad_bench.harness import (
    BenchReport,
    Complete,
    MeasuredPool,
    Progress,
    TrafficMeter,
    peak_memory,
)
from pv4fad_bench.workload import Workload

PLACE = "place accounts, make keys"
HASH = "hash bank accounts"
MESSAGES = "messages and stores"
PHASES: Mapping[Callable[..., Any], str] = {
    encrypt_powers: "encrypt powers",
    mask_values: "polynomials",
    open_block: "open",
    encrypt_digits: "encrypt digits, bits",
    mask_distances: "distances",
    encrypt_planes: "encrypt planes",
    blind_indicators: "indicators",
}


def bench_match(workload: Workload, workers: Workers, progress: Progress) -> BenchReport:
    """Run a match and check it."""
    parameters = workload.parameters()
    with MeasuredPool(workers, PHASES, MESSAGES) as pool:
        pool.start_workers(parameters)
        n_steps = sum(len(parameters.match_steps(bank)) for bank in parameters.banks)
        progress.begin(match_seconds(parameters) / max(1, pool.n_workers), n_steps)
        check, traffic = _watch(pool, workload, parameters), TrafficMeter()

        def observe(message: Header, n_bytes: int) -> None:
            traffic(message, n_bytes)
            if message.kind == EncryptedTable.kind:
                # The bank hashes its accounts when the first blocks of a table arrive.
                pool.stopwatch.switch(HASH if message.address.index == 0 else MESSAGES)
            if message.kind == BlindedIndicators.kind:
                progress.advance()

        federation = workload.federation(pool, _ForgetfulStore)
        pool.stopwatch.switch(PLACE)
        try:
            federation.train(parameters, workload.training_input, observe)
        except Complete:
            pool.stopwatch.switch(None)
        floor_s = pool.floor_s()
        return BenchReport(
            benchmark="match",
            workload=asdict(workload) | {"workers": pool.n_workers},
            phases=pool.stopwatch.phases,
            traffic=traffic.traffic(),
            checks=check.claims(parameters),
            figures=_figures(workload, parameters, traffic)
            | {"floor_s": floor_s, "overhead_ratio": pool.stopwatch.wall_s / floor_s},
            peak_bytes=peak_memory(pool.usage),
            operations=pool.operations,
        )


def _watch(pool: MeasuredPool, workload: Workload, parameters: RunParameters) -> _Check:
    """Check every job; stop before the count."""
    check = _Check(workload, parameters)

    def blinded(job: IndicatorsJob, block: BlindedBlock) -> None:
        with pool.stopwatch.paused():
            check.blinded(job, block)

    def opened(job: OpenJob, values: NDArray[np.uint64]) -> None:
        if job.secret.ring == parameters.match_ring:
            with pool.stopwatch.paused():
                check.opened(of_classes(values, parameters.plain_modulus))

    pool.taps = {blind_indicators: blinded, open_block: opened}
    pool.end_before = masked_products
    return check


def _figures(
    workload: Workload, parameters: RunParameters, traffic: TrafficMeter
) -> dict[str, float]:
    (plan,) = parameters.tables
    upload, download = (
        sum(traffic.n_bytes(kind.kind) for kind in kinds)
        for kinds in (
            (EncryptedTable, ValueDigits, RemainderBits, IndicatorPlanes),
            (MaskedValues, MaskedDistances, MaskedDifferences, BlindedIndicators),
        )
    )
    return {
        "blocks": plan.layout.n_blocks,
        "upload_bytes": upload,
        "download_bytes": download,
        "upload_bytes_per_100k_accounts": round(upload / workload.pns_accounts * 100_000),
        "log2_false_match": parameters.log2_false_match,
        "log2_distance": parameters.log2_distance,
    }


class _ForgetfulStore(MemoryStore):
    """Drops E_j[s], which has been checked: nothing in a match reads it, and it would add up."""

    def _write(self, key: str, value: bytes) -> None:
        if f"/{BankShares.__name__}/" not in key:
            super()._write(key, value)


class _Check:
    """Compares the shares of every block with the plain truth."""

    def __init__(self, workload: Workload, parameters: RunParameters) -> None:
        self._modulus = parameters.plain_modulus
        self._n_blocks = 0
        self._wrong = self._wrong_shares = 0
        self._shares: deque[NDArray[np.uint32]] = deque()
        self._truth = _indicators(workload, parameters)

    def blinded(self, job: IndicatorsJob, block: BlindedBlock) -> None:
        """The bank's side of a block."""
        self._shares.append(block.shares)
        ring, decryptor = Ring.of(job.own_secret.ring), Decryptor(job.own_secret)
        top = ring.parameters.n_data_primes
        opened = [decryptor.decrypt(ring.load(one, top)) for one in block.encrypted_shares]
        n_atoms, n_bins = block.shares.shape
        shares = np.stack(opened).reshape(n_atoms, -1)[:, :n_bins]
        self._wrong_shares += int((shares != block.shares).sum())

    def opened(self, u: NDArray[np.uint64]) -> None:
        """The payment network's side of the same block."""
        difference = (u.astype(np.int64) - self._shares.popleft()) % self._modulus
        first = self._n_blocks * u.shape[1]
        self._wrong += int((difference != self._truth[:, first : first + u.shape[1]]).sum())
        self._n_blocks += 1

    def claims(self, parameters: RunParameters) -> dict[str, bool]:
        """What was checked, and whether it holds."""
        (plan,) = parameters.tables
        return {
            f"u − s equals the plain join in all {plan.layout.n_bins} bins": self._wrong == 0
            and self._n_blocks == plan.layout.n_blocks,
            "E_j[s] decrypts to s": self._wrong_shares == 0,
        }


def _indicators(workload: Workload, parameters: RunParameters) -> NDArray[np.bool_]:
    """(atoms, bins): has the account in this bin this atom at the bank?"""
    (plan,) = parameters.tables
    (accounts,) = workload.tables.values()
    bins = place(hash_accounts(accounts.ids, parameters.hash_key), accounts.trees, plan.layout)
    truth = np.zeros((parameters.sizes.n_atoms, plan.layout.n_bins), np.bool_)
    atom = workload.atoms
    present = np.flatnonzero(atom >= 0)
    truth[atom[present], bins.bin_of_account[present]] = True
    return truth
