"""A scored run, made once."""

import pytest
from tests.kit.scored_run import data, document, predictions, pv4fad, tables, write_run

__all__ = ["data", "document", "pv4fad", "tables"]


@pytest.fixture
def made(tables):
    return predictions(tables.test.transactions)


@pytest.fixture
def run(document, made, tmp_path):
    return write_run(tmp_path / "run", document, made)
