"""Kill the process at any moment, and again: the run ends with the right model and ledger."""

from __future__ import annotations

import multiprocessing
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.kit.crashing import Kill, close, create_stores, open_world, train_or_resume
from tests.kit.world import check_equal_to_the_trusted_third_party

from pv4fad.privacy.ledger import read_ledger

# New processes that have imported everything, but share no state with any before them.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.kit.crashing"])


def process_ends(folder: Path, model: str, kill: Kill | float | None) -> int:
    """The exit code of a process that carries on with the run; a number kills it so much later."""
    at_commit = kill if isinstance(kill, Kill) else None
    process = SERVER.Process(target=train_or_resume, args=(folder, model, at_commit))
    process.start()
    if isinstance(kill, float):
        process.join(kill)
        process.kill()
    process.join()
    code = process.exitcode
    process.close()
    return code


def draw_kill(rng: np.random.Generator) -> Kill | float:
    """Opening takes two commits; a run has some thirty."""
    if rng.random() < 0.3:
        return float(rng.uniform(0.1, 3))
    return Kill(commit=int(rng.integers(3, 7)), after=bool(rng.random() < 0.5))


def run_with_kills(folder: Path, model: str, n_kills: int, rng: np.random.Generator) -> int:
    """Until it ends, killed at most so many times; how often it was."""
    create_stores(folder)
    for killed in range(n_kills):
        code = process_ends(folder, model, draw_kill(rng))
        assert code in (0, -signal.SIGKILL)
        if code == 0:
            return killed
    assert process_ends(folder, model, None) == 0
    return n_kills


def check_finished(folder: Path, model: str) -> None:
    """Right counts or labels, ε spent once, and to no message two different answers."""
    world, noise = open_world(folder, model)
    if model == "paper":
        check_equal_to_the_trusted_third_party(world, noise)
    else:
        truth = world.true_counts()
        assert np.array_equal(world.counts(), truth + noise.reshape(truth.shape))
    for bank in world.federation.banks:
        with bank.store.transaction() as tx:
            assert [(e.run_id, e.epsilon) for e in read_ledger(tx).expenses] == [
                (world.parameters.run_id, 1)
            ]
    close(world)
    sent = set((folder / "sent").read_text().splitlines())
    ids = [line.split()[0] for line in sent]
    assert len(ids) == len(set(ids)), "the same message was sent with different content"


def kill_runs(folder: Path, model: str, n_kills: int, rng: np.random.Generator) -> None:
    """Run after run, each to its end, until so many processes were killed."""
    runs, kills = 0, 0
    while kills < n_kills:
        run = folder / str(runs)
        run.mkdir()
        kills += run_with_kills(run, model, n_kills - kills, rng)
        check_finished(run, model)
        runs += 1


def test_a_run_that_is_killed_again_and_again_ends_with_the_right_counts(tmp_path):
    """Six kills: just before a commit, just after it, or at any time."""
    kill_runs(tmp_path, "evidence", 6, np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "n_kills"), [("evidence", 50), ("paper", 6)])
def test_kills_at_random_moments(tmp_path, model, n_kills):
    kill_runs(tmp_path, model, n_kills, np.random.default_rng(2))
