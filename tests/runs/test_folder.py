"""A run folder is whole at every moment, and no run is taken for another."""

from datetime import UTC, datetime

import pytest
from tests.runs.small_federation import PASSPHRASE, write_two_banks

from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.federation import run_parameters
from pv4fad.parties.sealing import Passphrase
from pv4fad.parties.store_file import create_file
from pv4fad.runs.document import RunDocument
from pv4fad.runs.folder import RUN_FILE, RunFolder
from pv4fad.runs.partition import training_split
from pv4fad.runs.prepare import bank_directory, prepare_payment_network
from pv4fad.runs.settings import TrainingSettings


@pytest.fixture(scope="module")
def prepared(tables):
    accounts = {bank: tables.accounts[bank] for bank in ("bank01", "bank02")}
    settings = TrainingSettings(epsilon="1/3", bound=2, honest_banks=2)
    directory = bank_directory(accounts)
    return prepare_payment_network(tables.train.transactions, directory, settings, 987654321)


@pytest.fixture(scope="module")
def document(prepared):
    parameters = run_parameters(
        prepared.training,
        {"bank01": 150, "bank02": 75},
        bound=2,
        epsilon=TrainingSettings(epsilon="1/3").exact_epsilon,
        noise="distributed",
        honest_banks=2,
        mode="sealed",
    )
    return RunDocument.of_new_run(parameters, b"\1" * 32, datetime.now(UTC))


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def test_what_was_written_is_read_again(folder, document):
    folder.write(document)
    assert folder.read() == document
    assert [one.name for one in folder.path.iterdir()] == [RUN_FILE]


def test_a_write_that_fails_leaves_the_old_document(folder, document, monkeypatch):
    folder.write(document)
    monkeypatch.setattr("os.fsync", _no_space)
    with pytest.raises(OSError, match="no space"):
        folder.write(document.model_copy(update={"state": "finished"}))
    assert folder.read() == document


def _no_space(_descriptor):
    raise OSError("no space left on device")


def test_the_claim_says_epsilon_unit_sensitivity_trust_and_what_is_outside(document):
    privacy = document.privacy
    for part in ("1/3-differentially", "one account record at one bank", "Δ = 4", "at least 2 of"):
        assert part in privacy.claim
    assert "computational" in privacy.claim
    assert "Scoring is outside the ε claim" in privacy.outside_the_claim
    assert "current flag" in privacy.outside_the_claim
    assert document.bounds.log2_distance <= -30
    assert document.bounds.log2_false_match <= -20
    assert document.bounds.log2_placement_failure <= -30


def test_the_public_document_shows_nothing_of_trees_and_true_sizes(document, prepared):
    text = document.to_json()
    for name in prepared.training.forest.feature_names:
        assert name not in text
    n_accounts = [len(table.ids) for table in prepared.training.tables.values()]
    for secret in (987654321, 150, 75, len(prepared.labels), *n_accounts):
        assert f" {secret}," not in text
        assert f" {secret}\n" not in text


@pytest.mark.parametrize("state", ["finished", "unfinished"])
def test_no_run_is_begun_where_one_is(folder, document, state):
    folder.write(document.model_copy(update={"state": state}))
    with pytest.raises(StoreError, match=f"holds the {state} run {document.run_id}"):
        folder.require_new()


def test_no_run_is_begun_among_other_files(folder, tmp_path):
    folder.require_new()
    folder.path.mkdir()
    folder.require_new()
    (folder.path / "notes.txt").touch()
    with pytest.raises(StoreError, match="holds other files"):
        folder.require_new()
    with pytest.raises(StoreError, match="is a file"):
        RunFolder(folder.path / "notes.txt").require_new()


def test_only_an_unfinished_run_is_resumed_and_only_a_finished_one_used(folder, document):
    with pytest.raises(StoreError, match="no run to resume"):
        folder.require_unfinished()
    with pytest.raises(StoreError, match="holds no run"):
        folder.require_finished()
    folder.write(document)
    assert folder.require_unfinished() == document
    with pytest.raises(StoreError, match="not finished"):
        folder.require_finished()
    folder.write(document.model_copy(update={"state": "finished"}))
    with pytest.raises(StoreError, match="finished run"):
        folder.require_unfinished()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text.encode()[:-10],
        lambda text: text.replace('"version": 1', '"version": 2', 1).encode(),
        lambda text: text.replace('"bound": 2', '"bound": 0', 1).encode(),
        lambda text: b"\xff" + text.encode(),
    ],
)
def test_a_damaged_or_foreign_document_is_refused(folder, document, damage):
    folder.write(document)
    (folder.path / RUN_FILE).write_bytes(damage(document.to_json()))
    with pytest.raises(StoreError, match="damaged"):
        folder.read()


def test_a_store_that_was_not_completed_is_made_again_and_a_complete_one_kept(folder):
    create_file(folder.path / "bank01").close()
    for _ in range(2):
        with folder.stores(["bank01"], Passphrase(PASSPHRASE), create=True) as stores:
            store = stores["bank01"]
            before = store.get("kept")
            with store.transaction() as tx:
                tx.put("kept", b"yes")
    assert before == b"yes"


def test_the_store_of_another_party_is_refused(folder):
    with folder.stores(["bank01"], Passphrase(PASSPHRASE), create=True):
        pass
    (folder.path / "bank01").rename(folder.path / "bank02")
    with (
        pytest.raises(StoreError, match="holds the store of bank01"),
        folder.stores(["bank02"], Passphrase(PASSPHRASE)),
    ):
        pass


def test_the_train_folder_is_found_from_above(tmp_path, tables):
    train = write_two_banks(tmp_path, tables)
    assert training_split(tmp_path) == training_split(train.parent) == train
    assert training_split(train) == train
    with pytest.raises(ParameterError, match=r"has no scenario 'other'.*scenario01"):
        training_split(tmp_path, "other")
    with pytest.raises(DataError, match="not found"):
        training_split(tmp_path / "nowhere")
    with pytest.raises(DataError, match="not a challenge folder"):
        training_split(train / "bank01")


def test_of_several_scenarios_one_has_to_be_named(tmp_path, tables):
    train = write_two_banks(tmp_path, tables)
    (tmp_path / "scenario02").mkdir()
    (tmp_path / "scenarios.txt").write_text("scenario01\nscenario02\n")
    with pytest.raises(ParameterError, match=r"several scenarios.*--scenario"):
        training_split(tmp_path)
    assert training_split(tmp_path, "scenario01") == train
