"""A run folder is whole at every moment, and no run is taken for another."""

from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from math import exp

import pytest
from tests.kit.small_federation import PASSPHRASE, records_of, small_tables, write_two_banks

from pv4fad.errors import DataError, ParameterError, StoreError
from pv4fad.lead.data import bank_directory
from pv4fad.lead.prepare import prepare_payment_network
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.challenge import training_split
from pv4fad.payments.schema import PAPER_FEATURES, SCHEMA
from pv4fad.privacy.delta import delta_text
from pv4fad.privacy.effective import effective_epsilon
from pv4fad.protocol.propose.inputs import run_parameters
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RUN_FILE, RunFolder
from pv4fad.store import sealing
from pv4fad.store.file import create_file
from pv4fad.store.sealing import Passphrase

SEED = 987654321
MODELS = {
    "evidence": TrainingSettings(epsilon="1/3", honest_banks=2),
    "coarse": TrainingSettings(epsilon="3", noise="per-bank", sets="coarse", absent="ordinary"),
    "paper": TrainingSettings(epsilon="1/3", model="paper", bound=2, honest_banks=2),
    "votes": TrainingSettings(epsilon="none", model="paper", scoring="votes"),
}


@pytest.fixture(scope="module")
def tables():
    return small_tables()


@pytest.fixture(scope="module")
def run_of(tables):
    """By model: what was prepared, and the document of that run; each made once."""

    @cache
    def made(model: str):
        settings, sizes = MODELS[model], {"bank01": 150, "bank02": 75}
        directory = bank_directory(records_of(tables.accounts, *sizes))
        data = LeadData(SCHEMA, tables.train.transactions, directory)
        prepared = prepare_payment_network(data, settings, SEED)
        evidence = settings.model == "evidence"
        parameters = run_parameters(
            prepared.training,
            sizes,
            SCHEMA,
            bound=settings.bound,
            epsilon=settings.exact_epsilon,
            noise=settings.noise_mode,
            honest_banks=settings.honest_banks or 1,
            mode=settings.mode,
            counted=settings.sets if evidence else None,
            absent=settings.absent if evidence else None,
        )
        document = RunDocument.of_new_run(parameters, SCHEMA, datetime.now(UTC))
        return prepared, document

    return made


@pytest.fixture(scope="module")
def document(run_of):
    return run_of("evidence")[1]


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
    for part in (
        "the noisy counts, is 1/3-differentially private",
        "whatever the payment network knew before",
        "one account at one bank",
        "Δ = 2",
        "at least 2 of",
        "at most 0.58",
        "computational",
    ):
        assert part in privacy.claim
    assert (privacy.epsilon, privacy.sensitivity, privacy.honest_banks) == ("1/3", 2, 2)
    assert f"if only one does, ε is {privacy.effective_epsilon:.1f}" in privacy.claim
    assert privacy.effective_epsilon == effective_epsilon(Fraction(1, 3), 2, 2) > 1 / 3
    assert privacy.guessing_bound == pytest.approx(exp(1 / 3) / (1 + exp(1 / 3)))
    assert "Scoring is outside the ε claim" in privacy.outside_the_claim
    assert "one bit for each kind, at most once" in privacy.outside_the_claim
    assert f"(2^{document.bounds.log2_distance:.1f} for all of the run)" in privacy.claim
    assert f"taken for one (2^{document.bounds.log2_false_match:.1f})" in privacy.claim
    assert privacy.delta == delta_text(document.parameters.delta)
    assert f"holds up to δ = {privacy.delta} for the accounts of one bank" in privacy.claim
    assert document.bounds.log2_distance <= -30
    assert document.bounds.log2_false_match <= -20
    assert document.bounds.log2_placement_failure <= -30


def test_the_claim_follows_the_run(run_of):
    privacy = run_of("coarse")[1].privacy
    assert (privacy.sensitivity, privacy.effective_epsilon) == (1, 3.0)
    assert "whatever the others do" in privacy.claim
    assert "at most 0.95" in privacy.claim
    paper = run_of("paper")[1].privacy
    assert "the labels of the forest, is 1/3-differentially" in paper.claim
    assert paper.sensitivity == 2  # the bound: a leaf has one set
    assert "one bit for each kind" in paper.outside_the_claim
    votes = run_of("votes")[1].privacy
    assert votes.claim.startswith("None: there is no noise")
    assert (votes.effective_epsilon, votes.guessing_bound) == (None, 1.0)
    assert "Vote totals tell kinds of accounts apart" in votes.outside_the_claim


def test_the_sizes_are_those_of_the_model(run_of):
    sizes = run_of("evidence")[1].sizes
    assert (sizes.banks, sizes.trees, sizes.groups, sizes.sums) == (2, 1, 18, 3 * 18)
    assert sizes.red_leaves is None
    assert run_of("coarse")[1].sizes.sums == 18
    sizes = run_of("paper")[1].sizes
    assert (sizes.trees, sizes.groups, sizes.red_leaves) == (12, 12 * 32, 2 * 12 * 32)


@pytest.mark.parametrize("model", ["evidence", "paper"])
def test_the_public_document_shows_nothing_of_own_data_and_true_sizes(run_of, tables, model):
    prepared, document = run_of(model)
    text = document.to_json()
    for name in PAPER_FEATURES:
        assert name not in text
    n_accounts = [len(table.ids) for table in prepared.training.tables.values()]
    n_rows = tables.train.transactions.height
    for secret in (SEED, 150, 75, n_rows, *n_accounts):
        assert f" {secret}," not in text
        assert f" {secret}\n" not in text
    counts = ", ".join(map(str, prepared.training.counts.n_path))
    assert counts not in text.replace("\n", "")


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
        lambda text: text.replace('"version": 5', '"version": 1', 1).encode(),
        lambda text: text.replace('"bound": 1', '"bound": 0', 1).encode(),
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


def test_a_store_that_cannot_be_opened_leaves_none_of_the_others_locked(tmp_path):
    folder, parties = RunFolder(tmp_path), ["bank01", "bank02", "bank03"]
    with folder.stores(parties, Passphrase(PASSPHRASE), create=True) as stores:
        assert {party: store.party for party, store in stores.items()} == dict(
            zip(parties, parties, strict=True)
        )
    with (
        pytest.raises(StoreError, match="elsewhere"),
        folder.stores(["bank01", "elsewhere", "bank03"], Passphrase(PASSPHRASE)),
    ):
        pass
    with folder.stores(parties, Passphrase(PASSPHRASE)) as stores:
        assert list(stores) == parties


def test_the_stores_of_a_run_take_one_computation_of_the_passphrase(tmp_path, monkeypatch):
    """One store that was locked again, with a salt of its own, takes another one."""
    folder, parties = RunFolder(tmp_path), ("bank01", "bank02")
    derived, scrypt = [], sealing.Scrypt

    def counting(**options):
        derived.append(options["salt"])
        return scrypt(**options)

    monkeypatch.setattr(sealing, "Scrypt", counting)
    with folder.stores(parties, Passphrase(PASSPHRASE), create=True):
        assert len(derived) == 1
    with folder.stores(parties, Passphrase(PASSPHRASE)) as stores:
        assert len(derived) == 2
        stores["bank02"].rotate(Passphrase("another for a moment"))
        stores["bank02"].rotate(Passphrase(PASSPHRASE))
    derived.clear()
    with folder.stores(parties, Passphrase(PASSPHRASE)):
        assert len(derived) == 2
