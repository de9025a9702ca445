"""Stores that open fast."""

import pytest

from pv4fad.store.disk import DiskStore
from pv4fad.store.sealing import Passphrase, insecure_fast_scrypt_for_tests
from pv4fad.store.store import MemoryStore

PASSPHRASE = Passphrase("correct horse battery")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "bank-a"


@pytest.fixture
def disk_store(folder):
    cost = insecure_fast_scrypt_for_tests()
    with DiskStore.create(folder, "bank-a", PASSPHRASE, cost) as store:
        yield store


@pytest.fixture(params=["memory", "disk"])
def store(request):
    if request.param == "memory":
        return MemoryStore("bank-a")
    return request.getfixturevalue("disk_store")
