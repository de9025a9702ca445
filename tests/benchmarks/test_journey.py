"""`pv4fad bench whole` runs the commands that a user runs, and says what each took."""

import json
import sys

import pytest

from pv4fad.errors import WorkerError
from pv4fad_bench import steps
from pv4fad_bench.journey import STEPS
from pv4fad_bench.steps import run_step

# A process that holds 300 MB and starts another one that holds 500.
_HOLDS = "import time; held = bytearray({size}); held[::4096] = b'x' * len(held[::4096])"
_PROGRAM = f"""
import subprocess, sys, time
{_HOLDS.format(size=300_000_000)}
child = {_HOLDS.format(size=500_000_000)!r} + "; sum(range(20_000_000)); time.sleep(1)"
subprocess.run([sys.executable, "-c", child], check=True)
print("done")
"""


@pytest.fixture
def any_program(monkeypatch):
    """`run_step` starts a program of the test instead of `pv4fad`."""
    real = steps.subprocess.Popen

    def start(command, **options):
        assert command[:3] == [sys.executable, "-m", "pv4fad"]
        return real([sys.executable, "-c", *command[3:]], **options)

    monkeypatch.setattr(steps.subprocess, "Popen", start)


def test_a_step_counts_the_processes_that_it_starts(any_program):
    step = run_step("two", [_PROGRAM])
    assert step.printed == "done\n"
    assert 500e6 < step.peak_bytes < 700e6
    assert step.wall_s > 1
    assert 0.1 < step.cpu_s < step.wall_s * 3


def test_a_step_that_fails_is_an_error_with_its_last_line(any_program):
    with pytest.raises(WorkerError, match="pv4fad train failed: there is no anomaly"):
        run_step("train", ["import sys; print('first'); sys.exit('error: there is no anomaly')"])


@pytest.mark.slow
def test_all_steps_are_measured(tmp_path, command_line):
    file = tmp_path / "whole.json"
    size = ("--transactions", 2_000, "--banks", 3, "--anomaly-rate", 0.05, "--alert-share", 0.05)
    code, printed, errors = command_line("bench", "whole", *size, "--workers", 0, "--json", file)
    assert code == 0, errors
    report = json.loads(file.read_text())
    assert [step["name"] for step in report["steps"]] == list(STEPS)
    for step in report["steps"]:
        assert step["name"] in printed
        assert step["cpu_s"] > 0
        assert step["peak_bytes"] > 50e6
        assert (step["bytes"] > 1e6) == (step["name"] in ("train", "score"))
    assert [phase["phase"] for phase in report["phases"]["train"]] == [
        "prepare", "propose", "match", "count",
    ]  # fmt: skip
    for step in report["steps"]:
        phases = report["phases"].get(step["name"], ())
        assert sum(phase["seconds"] for phase in phases) < step["wall_s"]
        assert step["bytes"] == sum(phase["bytes"] for phase in phases)
    assert list(report["preparation"]) == ["read", "features", "local model"]
    assert all(part in printed and s > 0 for part, s in report["preparation"].items())
    assert report["scored"] > 100
    assert report["evaluation"]["rows"] == report["scored"]
