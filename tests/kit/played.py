"""Commands that play all parties, outside of a test, and the data that they are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.small_federation import PASSPHRASE, telling_tables

from pv4fad.cli.main import main
from pv4fad.payments.challenge import write_partition, write_scenarios


def command(*arguments: object) -> None:
    """A command that must succeed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
        patch.setattr("sys.argv", ["pv4fad", *map(str, arguments)])
        main()


def write_telling_data(root: Path) -> Path:
    """A challenge folder with a train and a test split; of three banks two take part."""
    tables, scenario = telling_tables(), root / "scenario01"
    accounts = {bank: tables.accounts[bank] for bank in ("bank01", "bank02")}
    write_partition(scenario / "train", tables.train.transactions, accounts)
    write_partition(scenario / "test", tables.test.transactions, accounts)
    write_scenarios(root, ["scenario01"])
    return root
