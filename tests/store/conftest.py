"""Stores that open fast."""

import pytest

from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase
from pv4fad.store.store import MemoryStore

PASSPHRASE = Passphrase("correct horse battery")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "bank-a"


@pytest.fixture
def disk_store(folder):
    with DiskStore.create(folder, "bank-a", PASSPHRASE) as store:
        yield store


@pytest.fixture(params=["memory", "disk"])
def store(request):
    if request.param == "memory":
        return MemoryStore("bank-a")
    return request.getfixturevalue("disk_store")
