"""Unit costs are measured briefly: these tests are about counts and checks, not about speed."""

import pytest

from pv4fad_bench import operations


@pytest.fixture(autouse=True)
def brief_measurements(monkeypatch):
    monkeypatch.setattr(operations, "_SECONDS_EACH", 0.0)
