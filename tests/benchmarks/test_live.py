"""`pv4fad bench live`: small, but with everything that it measures."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_live_decisions_are_measured_and_none_is_wrong():
    size = ["--transactions", "3000", "--accounts", "1500", "--rates", "20", "--seconds", "4"]
    done = subprocess.run(
        [sys.executable, "-m", "pv4fad", "bench", "live", *size],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("│") for line in done.stdout.splitlines() if "default" in line]
    assert [row[1].strip() for row in rows] == ["all ask", "as trained"]
    asked, wrong = (int(rows[0][column]) for column in (6, 8))
    assert (asked > 40, wrong) == (True, 0)
