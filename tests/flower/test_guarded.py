"""No app but ours runs at a SuperNode or a SuperLink, and no program outlives its starter."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib

import pytest

from pv4fad.flower.exchange import VERSION
from pv4fad.flower.guarded import APP_FOLDER, REFUSED

_HANDS_OUT = """
import sys
from importlib import import_module
from flwr.cli.build import build_fab_from_disk, build_fab_from_files
from pv4fad.flower import guarded
program, which = sys.argv[1:]
module, name = guarded._READS_APPS[program]
original = getattr(import_module(module), name)
guarded.refuse_other_apps(program)
check = getattr(import_module(module), name)
assert check is not original
ours = build_fab_from_disk(guarded.APP_FOLDER)
text = (guarded.APP_FOLDER / "pyproject.toml").read_text()
evil = text.replace("pv4fad.flower.client_app:app", "os:system")
app = ours if which == "ours" else build_fab_from_files({"pyproject.toml": evil.encode()})[0]
class Run: override_config = {}
arguments = [app] + ([Run()] if program == "flower-supernode" else [])
print(bool(check(*arguments)))
"""


@pytest.mark.parametrize("program", ["flower-supernode", "flower-superlink"])
@pytest.mark.parametrize("which", ["ours", "foreign"])
def test_only_our_app_is_accepted(program, which):
    done = subprocess.run(
        [sys.executable, "-c", _HANDS_OUT, program, which],
        capture_output=True,
        text=True,
        check=False,
    )
    if which == "ours":
        assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
    else:
        assert done.returncode == 1
        assert REFUSED in done.stderr


def test_a_party_that_speaks_another_format_has_another_app():
    app = tomllib.loads((APP_FOLDER / "pyproject.toml").read_text())
    assert app["project"]["version"].split(".")[0] == str(VERSION)


def test_a_program_ends_with_its_starter():
    command = "from pv4fad.flower.guarded import _end_with_starter; _end_with_starter()"
    process = subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE)
    time.sleep(0.5)
    assert process.poll() is None
    process.stdin.close()  # as the end of the starter does
    assert process.wait(60) == -15
