"""A disk that is really full: one clear error, nothing half-written, and it goes on afterwards."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOUNTED = 'mount -t tmpfs -o size=3m tmpfs "$0" && exec "$@"'


def test_a_full_disk_loses_nothing_and_what_was_refused_works_later(tmp_path):
    """Store, journal, whole files, backup and restore, a bank's live files, the hub.

    In a mount that ends with the process.
    """
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            ["unshare", "-rm", "sh", "-c", MOUNTED, tmp_path, "true"],
            capture_output=True,
            check=False,
        ).returncode
    ):
        pytest.skip("a file system of its own needs Linux and user namespaces")
    command = [sys.executable, "-m", "tests.kit.full_disk", tmp_path]
    run = subprocess.run(
        ["unshare", "-rm", "sh", "-c", MOUNTED, tmp_path, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "all as it should be\n", run.stderr
