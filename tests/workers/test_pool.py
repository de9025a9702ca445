"""The worker pool keeps order and bounds, passes errors on, and survives the death of a worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.waiting import comes_true
from tests.kit.worker_jobs import SharedJob, pieces

from pv4fad.errors import CiphertextError, ParameterError, WorkerError
from pv4fad.workers import WorkerPool


def double(x: int) -> int:
    return 2 * x


def touch(path: Path) -> Path:
    path.touch()
    return path


def refuse(x: int) -> int:
    raise CiphertextError(f"job {x} is no ciphertext")


def die(x: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return x


@pytest.mark.parametrize("n_workers", [0, 2])
def test_results_come_in_the_order_of_the_jobs(n_workers):
    with WorkerPool(n_workers) as pool:
        assert list(pool.map(double, range(20))) == list(range(0, 40, 2))
        assert n_workers == 0 or 1 <= len(pool.usage.cpu_s) <= 2


def test_only_a_few_jobs_are_drawn_ahead():
    drawn = []

    def jobs():
        for i in range(20):
            drawn.append(i)
            yield i

    with WorkerPool(2) as pool:
        results = pool.map(double, jobs())
        next(results)
        assert len(drawn) == 4


@pytest.mark.parametrize("n_workers", [0, 2])
def test_begun_jobs_run_before_anybody_asks_and_their_results_come_in_order(n_workers, tmp_path):
    paths = [tmp_path / name for name in "abcdef"]
    with WorkerPool(n_workers) as pool:
        results = pool.begin(touch, paths)
        assert not n_workers or comes_true(lambda: all(path.exists() for path in paths))
        assert list(results) == paths


@pytest.mark.parametrize("n_workers", [0, 1])
def test_shared_bytes_are_read_in_pieces_and_go_with_their_holder(n_workers):
    with WorkerPool(n_workers) as pool:
        shared = pool.share([b"abc", b"defgh"])
        assert list(pool.map(pieces, [SharedJob(shared, 3)])) == [[b"abc", b"def", b"gh"]]
        path = shared.path
        assert path.exists()
        del shared
        assert not path.parent.exists()


def test_an_error_of_a_job_passes_through():
    with WorkerPool(1) as pool, pytest.raises(CiphertextError, match="job 3"):
        list(pool.map(refuse, [3]))


def test_the_death_of_a_worker_is_a_clear_error_and_the_pool_goes_on():
    with WorkerPool(1) as pool:
        assert pool.n_died == 0
        with pytest.raises(WorkerError, match="worker process died"):
            list(pool.map(die, [1]))
        assert pool.n_died == 1
        assert list(pool.map(double, [1])) == [2]


# Prints from its only worker, whose standard output stays open as long as the worker lives.
_KILLED_PARENT = """
import os, signal
from functools import partial
from pv4fad.workers import WorkerPool
if __name__ == "__main__":
    blocked_signals = partial(signal.pthread_sigmask, signal.SIG_BLOCK)
    print(*WorkerPool(1).map(blocked_signals, [()]), blocked_signals(()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_leave_interrupts_to_their_parent_and_end_when_it_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(_KILLED_PARENT)
    # Returns once nobody holds the pipe any more; an orphan would hold it forever.
    result = subprocess.run(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert result.stdout == "{<Signals.SIGINT: 2>} set()\n"
    assert result.returncode == -signal.SIGKILL


def test_negative_workers_are_refused():
    with pytest.raises(ParameterError, match="workers"):
        WorkerPool(-1)
