"""These tests are about the local model as it is, with all rounds of its bags."""

import pytest

from pv4fad.detection import fitting

ROUNDS = fitting.ROUNDS


@pytest.fixture(scope="package", autouse=True)
def whole_local_models():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "ROUNDS", ROUNDS)
        yield
