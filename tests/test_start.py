"""How `pv4fad` begins."""

import subprocess
import sys
from types import ModuleType

import pytest

from pv4fad import __main__
from pv4fad.cli.main import COMMANDS


class Interrupted(ModuleType):
    """A module during whose import somebody presses Ctrl-C."""

    @property
    def main(self):
        raise KeyboardInterrupt


def test_an_interrupt_while_modules_load_is_no_traceback(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pv4fad.cli.main", Interrupted("pv4fad.cli.main"))
    with pytest.raises(SystemExit, match="130"):
        __main__.main()
    assert capsys.readouterr().err == "error: interrupted\n"


def test_the_command_starts(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pv4fad", "--version"])
    __main__.main()
    assert capsys.readouterr().out.startswith("pv4fad ")


def test_a_command_line_with_a_mistake_names_the_help_to_read(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pv4fad", "train"])
    with pytest.raises(SystemExit, match="2"):
        __main__.main()
    error = capsys.readouterr().err
    assert error.startswith("error: Missing argument 'DIR'. See: ")
    assert error.endswith(" train --help\n")


_HELP = """
import sys
from pv4fad.__main__ import main
sys.argv = ["pv4fad", "--help"]
try:
    main()
finally:
    print("loaded:", sorted({"numpy", "polars", "sklearn", "seal", "pydantic"} & set(sys.modules)))
"""


def test_help_loads_no_command():
    ended = subprocess.run(
        [sys.executable, "-c", _HELP], check=True, capture_output=True, text=True
    )
    assert "train" in ended.stdout
    assert ended.stdout.endswith("loaded: []\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_of_a_command_what_its_own_help_says(name):
    own = COMMANDS[name].load(name).help or ""
    assert " ".join(own.split()).startswith(COMMANDS[name].help)


def test_help_wraps_where_the_terminal_does():
    commands = [COMMANDS[name].load(name) for name in COMMANDS]
    commands += [part for one in commands for part in getattr(one, "commands", {}).values()]
    texts = [paragraph for one in commands for paragraph in (one.help or "").split("\n\n")]
    assert any(len(text) > 100 for text in texts)
    assert not any("\n" in text for text in texts)
