"""A scored run, made once."""

import pytest
from tests.kit.scored_run import (
    finished_document,
    generated,
    predictions,
    without_line_breaks,
    write_data,
    write_run,
)


@pytest.fixture(scope="session")
def tables():
    return generated()


@pytest.fixture(scope="session")
def document(tables):
    return finished_document(tables)


@pytest.fixture(scope="session")
def data(tables, tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), tables)


@pytest.fixture
def made(tables):
    return predictions(tables.test.transactions)


@pytest.fixture
def run(document, made, tmp_path):
    return write_run(tmp_path / "run", document, made)


@pytest.fixture
def pv4fad(command_line):
    return without_line_breaks(command_line)
