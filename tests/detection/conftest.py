"""These tests are about the local model as it is, with all copies of its forests."""

import pytest

from pv4fad.detection import local_model

COPIES = local_model.COPIES


@pytest.fixture(scope="package", autouse=True)
def whole_local_models():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_model, "COPIES", COPIES)
        yield
