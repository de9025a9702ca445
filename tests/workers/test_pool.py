"""The worker pool keeps order and bounds, passes errors on, and survives the death of a worker."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.waiting import comes_true
from tests.kit.worker_jobs import SharedJob, pieces

from pv4fad.errors import CiphertextError, ParameterError, WorkerError
from pv4fad.workers import WorkerPool, parcel
from pv4fad.workers.parcel import new_parcel


def double(x: int) -> int:
    return 2 * x


def reverse(parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(part[::-1] for part in parts)


def touch(path: Path) -> Path:
    path.touch()
    return path


def n_files() -> int:
    """Of parcels that are under way."""
    held = map(os.path.realpath, Path("/proc/self/fd").iterdir())
    return sum("memfd:pv4fad" in path for path in held)


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


def test_large_bytes_arrive_in_both_directions_and_their_files_are_closed():
    """Those of several jobs under way, with small and empty ones between them."""
    jobs = [(os.urandom(2**18 + i), b"", os.urandom(7), os.urandom(2**16)) for i in range(6)]
    with WorkerPool(2) as pool:
        assert list(pool.map(reverse, jobs)) == [reverse(job) for job in jobs]
        given_up = pool.begin(reverse, jobs)
        assert n_files() > 0
        next(given_up)
        del given_up
        assert list(pool.map(reverse, jobs)) == [reverse(job) for job in jobs]
        assert comes_true(lambda: n_files() == 0)


def test_many_jobs_at_once_take_a_limited_number_of_files():
    with WorkerPool(1) as pool:
        assert list(pool.begin(double, range(300))) == list(range(0, 600, 2))
        begun = pool.begin(double, range(300))
        assert n_files() <= 128
        assert list(begun) == list(range(0, 600, 2))


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
        [sys.executable, script], stdout=subprocess.PIPE, text=True, check=False, timeout=300
    )
    assert result.stdout == "{<Signals.SIGINT: 2>} set()\n"
    assert result.returncode == -signal.SIGKILL


@pytest.mark.parametrize("workers", [-1, "-1", "--1", "²", "9" * 5000, "host:²"])
def test_what_is_no_number_of_workers_is_refused(workers):
    with pytest.raises(ParameterError, match="workers"):
        WorkerPool(workers)


needs_memfd = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)


@needs_memfd
def test_a_worker_does_not_touch_a_file_that_is_not_its_parcels(tmp_path):
    """As if the parcel were gone, and its number used again."""
    other = tmp_path / "store"
    other.write_bytes(b"precious")
    own = new_parcel()
    packed = own.pack(b"x" * 10**6)
    with pytest.raises(WorkerError, match="gone"):
        replace(packed, path=str(other)).answered(len)
    assert other.read_bytes() == b"precious"


@needs_memfd
def test_where_no_file_can_be_made_a_pipe_has_to_do(monkeypatch):
    def refused(*_):
        raise OSError

    monkeypatch.setattr("os.memfd_create", refused)
    before = len(parcel._free)
    assert new_parcel() is None
    assert len(parcel._free) == before
