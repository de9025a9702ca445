"""Small complete cases for all tests of the forest."""

from __future__ import annotations

import pytest
from tests.kit.forest_case import make_case


@pytest.fixture(name="make_case")
def _make_case():
    return make_case
