"""The command line, called in this process."""

import pytest
from tests.kit.small_federation import PASSPHRASE, small_tables


@pytest.fixture(scope="session")
def tables():
    return small_tables()


@pytest.fixture
def pv4fad(monkeypatch, command_line):
    """The command line, with the passphrase of all stores."""
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
    return command_line
