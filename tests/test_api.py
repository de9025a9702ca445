"""The Python front door: what `import pv4fad` offers, the same as the command line does."""

from __future__ import annotations

import copy
import doctest
import os
import pickle
import stat
import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import pandas
import polars as pl
import pytest
from sklearn.base import clone

import pv4fad
import tests.kit.claims as world
from pv4fad.api import arguments
from pv4fad.api.federation import Federation
from pv4fad.api.own_table import OwnTable
from pv4fad.errors import (
    BudgetError,
    DataError,
    NotFittedError,
    ParameterError,
    StoreError,
)
from pv4fad.payments.challenge import write_partition
from pv4fad.payments.convert import Conversion, convert
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.rules import rules_of
from pv4fad.store.disk import DiskStore
from pv4fad.store.key_sources import create_key_file, read_key_file
from pv4fad.store.records import Records
from pv4fad.store.sealing import Passphrase
from tests.kit.deployed_claims import make_folders, running
from tests.kit.small_federation import PASSPHRASE, small_tables, write_two_banks

# In this order: examples use what those before them have made.
EXAMPLES = (
    pv4fad.payments,
    pv4fad.Schema,
    pv4fad.errors,
    pv4fad.simulate,
    Federation,
    Federation.set_limit,
    pv4fad.Detector,
    pv4fad.Detector.get_params,
    pv4fad.Detector.set_params,
    pv4fad.Detector.detect,
    pv4fad.Detector.predict,
    pv4fad.Detector.save,
    pv4fad.load,
    Federation.refresh,
    pv4fad.connect,
)


# Names.


def test_the_public_names_are_these():
    names = ["Detector", "Schema", "connect", "errors", "load", "payments", "simulate"]
    assert sorted(pv4fad.__all__) == names
    assert set(dir(pv4fad)) == {*names, "__version__"}
    for name in names:
        assert getattr(pv4fad, name).__doc__
    with pytest.raises(AttributeError, match="no public name 'train'"):
        pv4fad.train  # noqa: B018


def test_importing_pv4fad_loads_nothing_else():
    program = "import sys, pv4fad; print({'polars', 'numpy', 'pydantic'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


# The examples of all docstrings, in one federation, and what can be seen afterwards.


@pytest.fixture(scope="module")
def after(tmp_path_factory):
    """What the names in the examples mean after they have been run, and how often they failed."""
    names = {
        "pv4fad": pv4fad,
        "claims_schema": world.claims_schema(),
        "hospitals": world.hospital_records(),
        "claims": world.claims(),
        "new_claims": world.new_claims(),
    }
    folder = tmp_path_factory.mktemp("examples")
    failed, texts = {}, []
    folders = make_folders(folder, limit="1")
    key = read_key_file(folder / "insurer.key")
    with pytest.MonkeyPatch.context() as patch, running(folders, key):
        patch.chdir(folder)
        for name in [name for name in os.environ if name.startswith("PV4FAD_")]:
            patch.delenv(name)
        for one in EXAMPLES:
            name = getattr(one, "__qualname__", one.__name__)
            finder = doctest.DocTestFinder(recurse=False)
            (test,) = finder.find(one, name, globs=names)
            runner = doctest.DocTestRunner()
            runner.run(test, out=texts.append, clear_globs=False)
            names |= test.globs
            failed[name] = runner.failures if runner.tries else "no example"
    yield SimpleNamespace(**names, folder=folder, failed=failed, text="".join(texts))
    names["federation"].close()


def test_every_public_object_has_an_example_that_prints_what_it_shows(after):
    assert after.failed == dict.fromkeys(after.failed, 0), after.text
    public = {
        getattr(getattr(pv4fad, name), "__qualname__", f"pv4fad.{name}") for name in pv4fad.__all__
    }
    assert public <= set(after.failed)


def test_what_is_known_after_fitting(after):
    detector = after.detector
    assert detector.schema_ == after.claims_schema
    assert detector.run_.state == "finished"
    assert detector.run_.data_schema.digest == detector.run_.parameters.schema_digest
    assert detector.costs_.columns == ["phase", "seconds", "messages", "bytes"]
    assert "1-differentially private" in str(detector.privacy_)
    assert "Scoring is outside the ε claim" in str(detector.privacy_)


def test_alerts_are_the_alerts_of_all_predictions_highest_first(after):
    """Those that there are: by chance, noise hides what the few records of this world tell."""
    predictions = after.detector.predict(after.new_claims)
    assert predictions["ClaimId"].to_list() == after.new_claims["ClaimId"].to_list()
    alerts = predictions.filter(pl.col("Alert") == 1)
    assert set(after.alerts["ClaimId"]) == set(alerts["ClaimId"])
    assert after.alerts["Score"].is_sorted(descending=True)
    assert after.alerts["Reasons"].null_count() == 0


def test_a_file_is_as_good_as_a_frame(after):
    path = after.folder / "new.parquet"
    after.new_claims.write_parquet(path)
    read = after.federation.read_rows(str(path), labels_required=False)
    assert read.equals(after.federation.read_rows(after.new_claims, labels_required=False))


def test_the_key_file_is_for_its_owner_only(after):
    assert stat.S_IMODE((after.folder / "run.key").stat().st_mode) == 0o600


def test_a_saved_run_shows_nothing_of_anybodys_data(after):
    content = b"".join(path.read_bytes() for path in after.folder.joinpath("run").rglob("*.*"))
    assert b"store" in content
    for secret in ("NP003", "Name of", "C00416", "blocked at"):
        assert secret.encode() not in content


def test_each_store_of_a_saved_run_has_the_table_of_its_own_party_only(after):
    key = arguments.given_passphrase(after.folder / "run", None, new=False)
    parties = [PAYMENT_NETWORK, "aggregator", *after.federation.holders]
    run = pv4fad.api.detector.RunFolder(after.folder / "run")
    tables = {}
    with run.stores(parties, key) as stores:
        for party, store in stores.items():
            with store.transaction() as tx:
                kept = Records(tx, after.detector.run_.run_id).find(OwnTable)
            tables[party] = None if kept is None else pl.read_parquet(kept.parquet)
    assert tables["aggregator"] is None
    assert "ClaimId" in tables[PAYMENT_NETWORK].columns
    for hospital in after.federation.holders:
        assert tables[hospital].columns == ["Holder", "Id", "Class"]
        assert set(tables[hospital]["Holder"]) == {hospital}


def test_no_repr_shows_a_secret(after):
    key = (after.folder / "run.key").read_text().strip()
    detector, federation = after.detector, after.federation
    seeded = clone(detector).set_params(seed=987654321)
    passphrase = arguments.given_passphrase(after.folder / "run", None, new=False)
    fitted = (detector.run_, detector.privacy_, detector.last_scoring_)
    shown = "".join(map(repr, (detector, seeded, federation, federation.ledgers, passphrase)))
    shown += "".join(map(repr, fitted))
    for secret in (key, "987654321", "NP003", "C00416"):
        assert secret not in shown


def test_a_second_detector_spends_what_is_left_and_a_third_is_refused(after):
    federation = after.federation
    again = pv4fad.Detector(epsilon=2, alert_share=0.05).fit(after.claims, federation)
    assert federation.ledgers["south"].left == 0
    with pytest.raises(
        BudgetError, match=r"south: .* 0 of this party's limit 3 is left.*set_limit"
    ):
        pv4fad.Detector(epsilon=1).fit(after.claims, federation)
    assert [ledger.spent for ledger in federation.ledgers.values()] == [3, 3]
    assert again.run_.run_id != after.detector.run_.run_id


def test_changed_records_count_after_a_refresh(after):
    """With nobody watched or blocked no answer of a hospital makes an alert."""
    harmless = {
        name: frame.with_columns(Class=pl.lit("ordinary"))
        for name, frame in after.hospitals.items()
    }
    # Without noise: by chance, noise hides what the few records of this world tell.
    with pv4fad.simulate(after.hospitals, after.claims_schema, limit="none") as federation:
        detector = pv4fad.Detector(epsilon="none", alert_share=0.05, seed=1)
        predictions = detector.fit(after.claims, federation).predict(after.new_claims)
        assert detector.last_scoring_.records_positive > 0
        assert detector.detect(after.new_claims).height == predictions["Alert"].sum() > 0
        federation.refresh(harmless)
        detector.predict(after.new_claims)
        assert detector.last_scoring_.records_positive == 0


def test_a_saved_run_is_not_overwritten_nor_opened_without_its_key(after, tmp_path):
    with pytest.raises(StoreError, match="choose another folder"):
        after.detector.save(after.folder / "run")
    run, key = after.folder / "run", tmp_path / "key"
    with pytest.raises(StoreError, match="there is no such key file; give key_file="):
        pv4fad.load(run, key_file=key)
    key.write_text("another passphrase\n")
    key.chmod(0o600)
    with pytest.raises(StoreError, match="wrong passphrase"):
        pv4fad.load(run, key_file=key)
    key.write_text("short\n")
    with pytest.raises(StoreError, match="at least 12 characters"):
        after.detector.save(tmp_path / "new", key_file=key)
    assert not (tmp_path / "new").exists()


def test_scoring_can_have_fewer_alerts_but_not_more(after):
    with pytest.raises(ParameterError, match=r"the run was trained for 0\.05"):
        after.detector.detect(after.new_claims, alert_share=0.1)
    with pytest.raises(ParameterError, match="alert_share 'few': give a number"):
        after.detector.detect(after.new_claims, alert_share="few")
    with pytest.raises(DataError, match="the rows: column Amount: missing"):
        after.detector.detect(after.new_claims.drop("Amount"))


def test_rows_of_training_are_not_judged(after):
    """Their own labels would be part of what is known about their accounts."""
    mixed = pl.concat([after.new_claims, after.claims.tail(2).select(after.new_claims.columns)])
    with pytest.raises(DataError, match=rf"2 rows have an id that a row of training has; .* "
                       rf"{after.new_claims.height + 1} "):  # fmt: skip
        after.detector.predict(mixed)


def test_keys_are_not_pickled_or_copied(after):
    for copied in (pickle.dumps, copy.deepcopy):
        for one in (after.detector, after.federation):
            with pytest.raises(ParameterError, match=r"cannot be pickled or copied; .* save\("):
                copied(one)


def test_a_detector_of_a_closed_federation_leaves_nothing_behind(tmp_path):
    with pv4fad.simulate(world.hospital_records(), world.claims_schema()) as federation:
        detector = pv4fad.Detector(epsilon=1, alert_share=0.05).fit(world.claims(), federation)
    for use in (detector.detect, lambda _: detector.save(tmp_path / "run")):
        with pytest.raises(StoreError, match="the federation is closed"):
            use(world.new_claims())
    assert not list(tmp_path.iterdir())


# The parameters, as scikit-learn treats them.


def test_a_clone_has_the_parameters_and_is_not_fitted():
    detector = pv4fad.Detector(epsilon=Fraction(1, 3), honest_holders=2, seed=4, trees=3)
    cloned = clone(detector)
    assert cloned.get_params() == detector.get_params()
    assert not hasattr(cloned, "privacy_")


@pytest.mark.parametrize("name", ["privacy_", "schema_", "run_", "costs_", "last_scoring_"])
def test_fitted_names_need_a_fitted_detector(name):
    with pytest.raises(NotFittedError):
        getattr(pv4fad.Detector(epsilon=1), name)


@pytest.mark.parametrize("use", [
    lambda one: one.detect(world.new_claims()),
    lambda one: one.predict(world.new_claims()),
    lambda one: one.save("run"),
])  # fmt: skip
def test_a_detector_cannot_be_used_before_it_is_fitted(use):
    with pytest.raises(NotFittedError, match="not fitted yet: call fit"):
        use(pv4fad.Detector(epsilon=1))


# The same as on the command line.


def test_the_same_data_and_seed_give_what_the_command_line_gives(
    tmp_path, monkeypatch, command_line
):
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
    tables, data, run = small_tables(), tmp_path / "data", tmp_path / "run"
    banks = {bank: tables.accounts[bank] for bank in ("bank01", "bank02")}
    train = write_two_banks(data, tables)
    write_partition(train.with_name("test"), tables.test.transactions, banks)
    settings = {"epsilon": "none", "seed": 5, "alert_share": 0.05}
    options = ["--epsilon", "none", "--seed", 5, "--alert-share", 0.05, "--workers", 0]
    command_line("train", data, "--out", run, *options)
    written = tmp_path / "predictions.csv"
    assert command_line("score", run, data, "--out", written, "--workers", 0)[0] == 0

    # As polars reads files: text where there is text, numbers where there are digits.
    known = pl.read_csv(next(train.rglob("swift*.csv")))
    new = pl.read_csv(next(train.with_name("test").rglob("swift*.csv")))
    assert known.schema["SettlementDate"] == pl.Int64
    holders = {bank: train / bank / "bank_dataset.csv" for bank in banks}
    with pv4fad.simulate(holders) as federation:
        detector = pv4fad.Detector(**settings).fit(known, federation)
        predictions = detector.predict(new)
        detector.save(tmp_path / "saved")
    expected = pl.read_csv(written).join(
        predictions, on="MessageId", how="left", maintain_order="left", suffix=" here"
    )
    assert predictions["Alert"].sum() > 0
    for column in ("Alert", "Level", "Reasons"):
        assert expected[column].to_list() == expected[f"{column} here"].to_list()
    for column in ("Score", "LocalScore"):
        assert (expected[column] - expected[f"{column} here"]).abs().max() < 1e-9

    code, text, _ = command_line("verify", tmp_path / "saved", data)
    assert (code, "100 % equal" in text) == (0, True)
    with pytest.raises(DataError, match="does not have the table of bank01: give holders="):
        pv4fad.load(run)
    with pytest.raises(DataError, match="give rows="):
        pv4fad.load(run, holders=holders)
    with pytest.raises(DataError, match="the rows are not those that the run was trained on"):
        pv4fad.load(run, rows=known.head(500), holders=holders)
    with pv4fad.load(run, rows=known, holders=holders) as loaded:
        assert repr(loaded) == "Detector(epsilon='none', alert_share=0.05)"
        assert loaded.get_params()["seed"] == 5
        assert loaded.run_.run_id != detector.run_.run_id
    for name in ("one.xml", "messages"):  # a file, a folder
        convert(next(train.rglob("swift*.csv")), tmp_path / name, Conversion("pacs008"))
        with pv4fad.load(run, rows=str(tmp_path / name), holders=holders) as loaded:
            assert loaded.get_params()["seed"] == 5


def test_frames_of_pandas_are_read_as_those_of_polars():
    tables, schema = small_tables(), pv4fad.payments.SCHEMA
    text = tables.accounts["bank01"].cast(pl.String)
    rows = tables.test.transactions.cast({"Label": pl.Int64}).with_columns(
        pl.col(pl.Categorical).cast(pl.String)
    )
    with (
        pv4fad.simulate({"bank01": text}, schema) as ours,
        pv4fad.simulate({"bank01": pandas.DataFrame(text.to_dict())}, schema) as theirs,
    ):
        assert theirs.records["bank01"].equals(ours.records["bank01"])
        frame = pandas.DataFrame(rows.to_dict(as_series=False))
        read = theirs.read_rows(frame, labels_required=True)
        assert read.equals(ours.read_rows(rows, labels_required=True))


def test_parties_in_a_folder_keep_their_ledgers(tmp_path):
    place = {"folder": tmp_path / "parties", "key_file": tmp_path / "key"}
    hospitals, schema = world.hospital_records(), world.claims_schema()
    with pv4fad.simulate(hospitals, schema, limit={"north": 2}, **place) as federation:
        assert (tmp_path / "key").is_file()
    with pv4fad.simulate(hospitals, schema, **place) as federation:
        assert federation.ledgers["north"].limit == 2
        assert str(federation.ledgers).splitlines()[2].split() == [
            "south",
            "0",
            "not",
            "set",
            "0",
            "0",
        ]
    # No new key is made for a folder that another one has sealed.
    with pytest.raises(StoreError, match=r"parties\.key: there is no such key file"):
        pv4fad.simulate(hospitals, schema, folder=tmp_path / "parties")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "parties"]


def test_a_passphrase_that_is_set_comes_before_a_key_file_of_an_earlier_run(tmp_path, monkeypatch):
    hospitals, schema = world.hospital_records(), world.claims_schema()
    create_key_file(tmp_path / "parties.key")
    monkeypatch.setenv("PV4FAD_PASSPHRASE", PASSPHRASE)
    for limit in (2, None):  # a new folder, and the same again
        with pv4fad.simulate(
            hospitals, schema, limit=limit, folder=tmp_path / "parties"
        ) as federation:
            assert federation.ledgers["north"].limit == 2
    with DiskStore.open(tmp_path / "parties" / "north", Passphrase(PASSPHRASE)) as store:
        assert store.party == "north"
    monkeypatch.delenv("PV4FAD_PASSPHRASE")
    with pytest.raises(StoreError, match="wrong passphrase"):
        pv4fad.simulate(hospitals, schema, folder=tmp_path / "parties")


def test_own_rules_of_a_holder_decide_the_classes_of_its_records(tmp_path):
    hospitals, schema = world.hospital_records(), world.claims_schema()
    rule = {"class": "blocked", "column": "Rating", "at_least": 5}
    file = tmp_path / "north.toml"
    file.write_text('[[rules]]\nclass = "blocked"\ncolumn = "Rating"\nat_least = 5\n')
    found = []
    for rules in (rules_of([rule]), [rule], {"rules": [rule]}, file, str(file)):
        with pv4fad.simulate(hospitals, schema, rules={"north": rules}) as federation:
            found.append(federation.records["north"])
            assert "watch" in federation.records["south"]["Class"].to_list()
    rated = hospitals["north"].filter(pl.col("Rating") >= 5)["Person"].to_list()
    for records in found:
        assert records.filter(pl.col("Class") != "ordinary")["Id"].to_list() == rated
