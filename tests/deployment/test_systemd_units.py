"""The units for systemd: they are well formed, and what they start is there."""

import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from pv4fad.cli.main import app

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").iterdir())


@pytest.mark.parametrize("unit", UNITS, ids=lambda one: one.name)
def test_a_unit_starts_a_command_that_exists_again_and_again(unit, capsys):
    content = ConfigParser(interpolation=None)
    content.optionxform = str
    content.read_string(unit.read_text())
    _, *words = shlex.split(content["Service"]["ExecStart"])
    *command, folder, option, key = words
    app([*command, "--help"], standalone_mode=False)
    assert option in capsys.readouterr().out
    assert folder == content["Service"]["ReadWritePaths"]
    assert key.split("/")[1] == content["Service"]["LoadCredential"].split(":")[0]
    assert content["Service"]["Restart"] == "always"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_them(tmp_path):
    for unit in UNITS:
        text = unit.read_text().replace("/opt/pv4fad/bin/pv4fad", shutil.which("true"))
        (tmp_path / unit.name.replace("@", "@party")).write_text(text)
    files = [str(file) for file in tmp_path.iterdir()]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
