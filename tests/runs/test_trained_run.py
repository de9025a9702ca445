"""Scoring and matching anew, disturbed in every possible way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.protocol.scoring_worlds import TRAIN_ROWS, again, expected_votes, rows_of, trained
from tests.protocol.world import BICS, World, bank_name, bank_records, scoring_input

from pv4fad.errors import DataError
from pv4fad.parties.store import MemoryStore
from pv4fad.runs.scoring_job import JobNotes
from pv4fad.runs.scoring_rows import Batching, ScoringRows
from pv4fad.runs.trained_run import TrainedRun

ROWS = slice(50, 72)  # the last of training, and some with new accounts


class Killed(BaseException):
    """The process dies."""


class MortalStore(MemoryStore):
    """Its process dies as soon as anything new is in it."""

    deadly = True

    def _commit(self) -> None:
        changed = self._before != self._records
        super()._commit()
        if changed and MortalStore.deadly:
            raise Killed

    def _rollback(self) -> None:
        # What was committed stays, whatever happens to the process.
        if self._before is not self._records:
            super()._rollback()


@pytest.fixture
def deadly(monkeypatch):
    monkeypatch.setattr(MortalStore, "deadly", True)
    return monkeypatch


WORLDS = {
    "sealed": {"seed": 6, "n_banks": 1, "mode": "routed", "model": "sealed"},
    "released": {"seed": 7, "n_banks": 2, "mode": "mixed", "model": "released"},
}
ONE_BANK = {"seed": 1, "n_banks": 1, "mode": "routed", "model": "released"}


def world_of(options: dict) -> World:
    return again(trained(**options), store_of=MortalStore)


def run_of(world: World) -> TrainedRun:
    banks = range(len(world.federation.banks))
    return TrainedRun(
        world.federation, world.parameters, {BICS[bank]: bank_name(bank) for bank in banks}
    )


def rows(world: World, case, fingerprint: str = "some transactions") -> ScoringRows:
    data = scoring_input(world, case)
    ids = pl.Series("MessageId", [f"m{n}" for n in range(len(data.codes))])
    return ScoringRows(
        ids,
        fingerprint,
        data.codes,
        data.keys,
        data.key_of,
        local_scores=None,
        is_first=np.zeros(len(data.codes), bool),
        history=np.zeros((len(data.keys), 2, 2, 2), np.int64),
    )


def until_done(world: World, work) -> tuple[object, int]:
    """Start it again whenever it is killed: the result, and how often that was."""
    for killed in range(1000):
        try:
            return work(run_of(again(world, copies=False))), killed
        except Killed:
            pass
    raise AssertionError("it never ends")


def layers_answered(world: World) -> list[bytes]:
    """The counters of all banks."""
    return [
        bank.store.get(name)
        for bank in world.federation.banks
        for name in bank.store.keys("")
        if "layers answered/" in name
    ]


@pytest.mark.parametrize("model", WORLDS)
def test_killed_after_every_write_it_ends_as_if_undisturbed(model, deadly):
    world = world_of(WORLDS[model])
    case = rows_of(world.case, ROWS)
    expected = expected_votes(world, case)
    votes, killed = until_done(world, lambda run: run.votes(rows(world, case), Batching(12, 2)))
    assert killed > 30
    assert np.array_equal(votes, expected)
    deadly.setattr(MortalStore, "deadly", False)
    undisturbed = again(trained(**WORLDS[model]))
    assert np.array_equal(run_of(undisturbed).votes(rows(world, case), Batching(12, 2)), expected)
    assert layers_answered(world)
    assert layers_answered(world) == layers_answered(undisturbed)


def test_what_is_scored_is_not_asked_again_until_the_results_are_in_safe_hands(deadly):
    deadly.setattr(MortalStore, "deadly", False)
    world = world_of(ONE_BANK)
    case = rows_of(world.case, slice(0, 20))
    votes = run_of(world).votes(rows(world, case), Batching(12, 2))
    asked = layers_answered(world)
    # Also with another size of batches: results do not depend on it.
    assert np.array_equal(run_of(world).votes(rows(world, case), Batching(5, 2)), votes)
    assert layers_answered(world) == asked
    run_of(world).finish_scoring()
    assert np.array_equal(run_of(world).votes(rows(world, case), Batching(5, 2)), votes)
    assert layers_answered(world) != asked


def interrupted_after(world: World, kind: str, work) -> None:
    """Do it until a message of this kind arrives, which is lost."""
    run = run_of(world)

    def observe(message, size):
        if message.kind == kind:
            raise Killed

    run.meter = type("Meter", (), {"__call__": staticmethod(observe), "expect": lambda *_: None})()
    with pytest.raises(Killed):
        work(run)


def test_other_transactions_take_the_place_of_an_interrupted_scoring(deadly):
    deadly.setattr(MortalStore, "deadly", False)
    world = world_of(ONE_BANK)
    first, second = rows_of(world.case, slice(0, 10)), rows_of(world.case, slice(10, 20))
    interrupted_after(
        world, "score-reply", lambda run: run.votes(rows(world, first), Batching(12, 2))
    )
    votes = run_of(again(world, copies=False)).votes(rows(world, second, "others"), Batching(12, 2))
    assert np.array_equal(votes, expected_votes(world, second))


def test_killed_after_every_write_a_new_match_is_made_once_and_old_keys_are_gone(deadly):
    world = world_of(ONE_BANK)
    case = rows_of(world.case, slice(0, TRAIN_ROWS))
    old = [world.secret_key_of(bank) for bank in world.federation.banks]
    network, run_id = world.federation.payment_network, world.parameters.run_id
    notes = JobNotes(network.store, run_id)

    def match_anew(run):
        # Killed just after the last note, it was over: asked once more, it would match once more.
        if network.matches(run_id) == [0] or notes.renewal() is not None:
            run.match_anew()

    _, killed = until_done(world, match_anew)
    assert killed > 8
    deadly.setattr(MortalStore, "deadly", False)
    assert network.matches(run_id) == [1]
    for bank, key in zip(world.federation.banks, old, strict=True):
        assert key not in bank.store._records.values()
    assert f"run/{run_id}/secret key" not in network.store._records
    votes = run_of(world).votes(rows(world, case), Batching(60, 2))
    assert np.array_equal(votes, expected_votes(world, case))


def test_records_that_change_while_they_are_matched_are_all_matched_anew(deadly):
    """Half a table with one version of the accounts, half with another: never."""
    deadly.setattr(MortalStore, "deadly", False)
    world = world_of(ONE_BANK)
    case = rows_of(world.case, slice(0, 20))
    interrupted_after(world, "blinded-indicators", TrainedRun.match_anew)
    flags = {key: ((flag + 1) % 11, slot) for key, (flag, slot) in case.records.items()}
    case = replace(case, records=flags)
    for bank, party in enumerate(world.federation.banks):
        changed = replace(bank_records(case, bank), fingerprint="version 2")
        party.replace_records(changed)
    with pytest.raises(DataError, match=r"bank01 is not the one.*match refresh"):
        run_of(world).votes(rows(world, case), Batching(60, 2))
    with pytest.raises(DataError, match="match refresh"):
        run_of(world).require_same_accounts()
    run_of(world).match_anew()
    run_of(world).require_same_accounts()
    votes = run_of(world).votes(rows(world, case), Batching(60, 2))
    assert np.array_equal(votes, expected_votes(world, case))
    assert not np.array_equal(votes, expected_votes(world, rows_of(world.case, slice(0, 20))))
