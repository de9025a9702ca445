"""A browser for the pages of the service, and payments for it."""

import pytest
from tests.kit.chromium import opened_tab
from tests.kit.live_service import live_world


@pytest.fixture(scope="session")
def tab():
    with opened_tab() as opened:
        yield opened


@pytest.fixture(scope="session")
def payments():
    """Those of the test period, in order of time."""
    return live_world().payments
