"""The dossier says what there is, in pages and in JSON alike; hostile text stays text."""

import hashlib
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tests.kit.hub_world import letter
from tests.kit.report_page import HOSTILE, PASSPHRASE, Seen
from tests.kit.scored_run import finished_document, predictions, write_run

from pv4fad.attack.findings import FILE_NAME, Attack, Finding
from pv4fad.audit.log_file import LogFile
from pv4fad.audit.notary import Notary, known_keys
from pv4fad.evaluation.scored import default_predictions
from pv4fad.protocol.identity import identity_in, stored_identity
from pv4fad.report.dossier.integrity import Integrity
from pv4fad.report.dossier.pages import JSON_FILE, QUESTIONS, Dossier, dossier_files
from pv4fad.report.dossier.processing import ROLES, TO_FILL_IN
from pv4fad.run.folder import RunFolder
from pv4fad.run.scoring_record import read_record, write_record
from pv4fad.store.file import holds_store
from pv4fad.store.sealing import Passphrase

ONE, TWO = "bank01", "bank02"
PARTIES = ("payment-network", ONE, TWO, "aggregator")
PAGES = {"index", *QUESTIONS}
FINDINGS = (
    Finding(
        attacker="lead",
        target="which {records} are not ordinary",
        measure="share recognised",
        found=0.123,
        guess=0.1,
        n=321,
    ),
    Finding(
        attacker="aggregator", target="anything", measure="right", found=0.4, allowed=0.5, n=12
    ),
)


def send_letters(run: Path) -> None:
    """All parties get keys, and one bank sends three signed messages to the other."""
    folder, key = RunFolder(run), Passphrase(PASSPHRASE)
    with folder.stores(PARTIES, key, create=True) as stores:
        own = {name: identity_in(store) for name, store in stores.items()}
        keys = known_keys(one.public() for one in own.values())
        one, two = (Notary(stores[name], own[name], keys) for name in (ONE, TWO))
        for number in range(3):
            message = letter(ONE, TWO, np.array([number], np.uint32), number)
            two.opened(one.stamped(message))


@pytest.fixture(scope="module")
def attacked(run, document, tmp_path_factory) -> Path:
    """The run with all that it can have."""
    place = shutil.copytree(run, tmp_path_factory.mktemp("dossier") / "run")
    found = Attack(run_id=document.run_id, findings=FINDINGS)
    found.write(place / "payment-network" / FILE_NAME)
    send_letters(place)
    return place


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key"
    file.write_text(PASSPHRASE + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def dossier(pv4fad, tmp_path):
    """Calls the command: what it printed, the pages as they are read, and the JSON."""

    def make(*arguments: object) -> tuple[str, dict[str, Seen], dict]:
        to = tmp_path / "dossier"
        code, text, error = pv4fad("dossier", *arguments, "--out", to)
        assert (code, error) == (0, "")
        assert {file.name for file in to.iterdir()} == {
            JSON_FILE,
            *(f"{name}.html" for name in PAGES),
        }
        pages = {name: Seen((to / f"{name}.html").read_text()) for name in PAGES}
        return text, pages, json.loads((to / JSON_FILE).read_text())

    return make


def cells(*values: object) -> str:
    """A row of a table, as `Seen` joins its cells."""
    return "".join(map(str, values))


def test_the_folder_is_for_its_owner_and_every_page_names_the_json(
    attacked, dossier, document, tmp_path
):
    _, pages, data = dossier(attacked)
    to = tmp_path / "dossier"
    assert to.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in to.iterdir())
    digest = hashlib.sha256((to / JSON_FILE).read_bytes()).hexdigest()
    for page in pages.values():
        assert digest in page.words
        assert document.run_id in page.words
    assert data["run_id"] == document.run_id


def test_claims_what_was_learned_and_attacks_are_there_in_numbers(
    attacked, hostile_data, key, dossier, document
):
    text, pages, data = dossier(attacked, hostile_data, "--key-file", key)
    assert "Not in it" not in text
    assert data["gaps"] == []
    assert cells("accounts about which it knows a bit, over all scorings", 678) in (
        pages["learned"].words
    )
    assert data["learned"]["scoring"]["records_known"] == 678
    assert cells("share recognised", "0.123", "0.100", "-", 321) in pages["attacks"].words
    assert data["attacks"]["findings"][0]["found"] == 0.123
    assert "claims put to the test: 1, all of them hold" in pages["index"].words
    assert document.privacy.claim in pages["claims"].words
    assert data["claims"]["privacy"]["epsilon"] == document.privacy.epsilon == "1"
    assert "bits about 678 accounts, 9 of them not ordinary" in pages["index"].words


def test_what_metering_told_the_aggregator_is_there_in_numbers(attacked, dossier, tmp_path):
    run = shutil.copytree(attacked, tmp_path / "run")
    predictions = default_predictions(run)
    record = read_record(predictions)
    answers = {"bank01": 1204, "bank02": 0}
    write_record(predictions, record.model_copy(update={"positive_answers": answers}))
    _, pages, data = dossier(run)
    assert data["learned"]["scoring"]["positive_answers"] == answers
    assert "each bank were positive (bank01 1,204, bank02 0)" in pages["index"].words
    assert cells("bank01", "1,204") in pages["learned"].words


def test_stability_and_thresholds_are_those_of_plain_numpy(
    attacked, hostile_data, key, dossier, whole
):
    _, pages, data = dossier(attacked, hostile_data, "--key-file", key)
    table, words = whole.predictions, pages["validation"].words
    days = table["Timestamp"].dt.date().to_list()
    alert = table["Alert"].to_numpy() == 1
    truth, score = table["Label"].to_numpy() == 1, table["Score"].to_numpy()
    shown = data["validation"]["stability"]
    assert [one["begin"] for one in shown] == sorted({str(day) for day in days})
    for one in shown:
        here = np.array([str(day) == one["begin"] for day in days])
        assert (one["rows"], one["alerts"]) == (here.sum(), (alert & here).sum())
        assert (one["anomalies"], one["found"]) == (
            (truth & here).sum(),
            (alert & truth & here).sum(),
        )
        assert cells(one["begin"], f"{one['rows']:,}", one["alerts"]) in words
        assert f"{one['psi']:.3f}" in words
    lines = data["validation"]["thresholds"]
    assert lines["line"] == score[alert].min()
    for one in lines["levels"]:
        high = score >= one["multiple"] * score[alert].min()
        assert (one["alerts"], one["found"]) == (high.sum(), (high & truth).sum())
        row = cells(f"{one['multiple']:g} ×", f"{one['threshold']:.3g}", high.sum())
        assert row in words
    # One anomaly is below the line.
    assert sum(one["anomalies"] for one in lines["below"]) == lines["sample"]["anomalies"] == 1
    joint = next(one for one in data["validation"]["detectors"] if one["name"] == "joint")
    assert f"{joint['average_precision']['value']:.2f}" in words


def test_logs_are_compared_and_their_keys_shown(attacked, key, dossier):
    _, pages, data = dossier(attacked, "--key-file", key)
    found, words = data["integrity"], pages["integrity"].words
    assert found["audit"] == {
        "parties": list(PARTIES),
        "n_messages": 3,
        "n_confirmed": 0,
        "n_live": 0,
        "n_live_missing": 0,
        "faults": [],
        "notes": [],
    }
    with RunFolder(attacked).stores(PARTIES, Passphrase(PASSPHRASE)) as stores:
        for one, store in zip(found["parties"], stores.values(), strict=True):
            assert one["fingerprint"] == stored_identity(store).public().fingerprint
            assert one["fingerprint"] in words
    assert "All logs that were read fit together" in words
    assert len(found["ledgers"]) == 2
    assert list(found["ledgers"][0].values()) == [ONE, "1", "3", "2", "2^-12", "2^-10"]
    for ledger in found["ledgers"]:
        assert cells(*ledger.values()) in words
    for name in ("run.json", "payment-network/predictions.csv", "payment-network/attack.json"):
        file = attacked / name
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert cells(file.name, digest) in words
        assert found["files"][file.name] == digest


def test_a_log_with_a_message_left_out_is_shown_as_a_fault(attacked, dossier, tmp_path):
    """With exported logs alone, as between organisations."""
    logs = []
    with RunFolder(attacked).stores(PARTIES, Passphrase(PASSPHRASE)) as stores:
        for name, store in stores.items():
            log = LogFile.of(store, stored_identity(store))
            if name == ONE:
                (chain,) = log.chains
                chain = chain.model_copy(update={"messages": chain.messages[:-1]})
                log = log.model_copy(update={"chains": (chain,)})
                log = log.signed_by(stored_identity(store))
            logs += ["--log", tmp_path / f"{name}.json"]
            logs[-1].write_text(log.to_json())
    _, pages, data = dossier(attacked, *logs)
    faults = data["integrity"]["audit"]["faults"]
    assert {one["party"] for one in faults} == {ONE}
    assert "The logs do not fit together." in pages["integrity"].words
    assert faults[0]["what"] in pages["integrity"].words
    assert "FAULTS: 1" in pages["index"].words


def test_processing_is_that_of_the_schema_and_legal_roles_are_blank(attacked, dossier, document):
    _, pages, data = dossier(attacked)
    schema, words = document.data_schema, pages["processing"].words
    columns = [schema.rows.id, schema.rows.time, schema.rows.label, schema.record.id]
    columns += [side.id for side in schema.sides.values()] + list(schema.record.classes)
    for one in (*columns, *TO_FILL_IN, *ROLES, "payment network", *PARTIES[1:]):
        assert one in words
    for name, most in document.parameters.banks.items():
        assert cells(name, f"{most:,}") in words
    blanks = [a for tag, a in pages["processing"].elements if ("class", "blank") in a]
    assert len(blanks) == len(TO_FILL_IN) + len(ROLES) * len(PARTIES)
    assert data["processing"]["schema"]["rows"]["id"] == schema.rows.id


@pytest.mark.parametrize(
    ("settings", "said", "not_said"),
    [
        (
            {},
            {
                "index": "the payment network: noisy counts; of a scoring",
                "processing": "keys, shares, noisy counts, local model, seed",
            },
            ("labels of leaves", "votes", "it opens them", "positive answers"),
        ),
        (
            {"model": "paper", "scoring": "decisions"},
            {
                "index": "the payment network: noisy labels of leaves; of a scoring",
                "processing": "keys, shares, noisy labels of leaves, seed",
            },
            ("noisy counts; ", "noisy counts, local model", "votes", "it opens them"),
        ),
        (
            {"model": "paper", "scoring": "votes"},
            {
                "index": "the payment network: shares of labels, which say nothing; of a scoring",
                "processing": "answers to questions: sums of votes",
            },
            ("noisy counts; ", "noisy counts, local model", "bits", "it opens them"),
        ),
        (
            {"metered": True},
            {
                "index": "the payment network: noisy counts; of a scoring",
                "processing": "it opens them, and counts the positive ones",
            },
            ("labels of leaves", "votes"),
        ),
    ],
    ids=["counts", "released", "sealed", "metered"],
)
def test_what_leaves_and_is_kept_is_that_of_the_model(settings, said, not_said, tmp_path, dossier):
    _, pages, data = dossier(write_run(tmp_path / "run", finished_document(**settings), None))
    for page, text in said.items():
        assert text in pages[page].words
    for text in not_said:
        assert text not in pages["processing"].words
        assert text not in pages["index"].words
    metered = settings.get("metered", False)
    kept = [row for row in data["processing"]["kept"] if "positive answers" in row[1]]
    assert len(kept) == metered
    assert "has its own, but where all parties ran on one machine" in pages["processing"].words


def test_what_was_learned_of_released_labels_is_not_called_counts(whole):
    document = finished_document(model="paper", scoring="decisions")
    content = replace(whole, document=document)
    integrity = Integrity("1", "1", "1", "ab", "", {}, (), None, ())
    files = dossier_files(Dossier.of(content, integrity, datetime(2026, 1, 3, tzinfo=UTC)))
    words = Seen(files["index.html"]).words
    assert "the payment network: noisy labels of leaves, and bits about 678 accounts" in words


def test_what_is_missing_is_said_with_how_to_get_it(document, tmp_path, dossier):
    text, pages, data = dossier(write_run(tmp_path / "run", document, None))
    for part in (
        "nothing was scored yet: pv4fad score",
        "pv4fad attack RUN DIR",
        "give --key-file for those in the stores, or --log",
    ):
        assert part in text
        assert part in pages["index"].words
    assert pages["validation"].words.count("Not measured") == 3
    assert "No signed log was read." in pages["integrity"].words
    assert "Nobody has attacked this run yet" in pages["attacks"].words
    assert data["validation"]["thresholds"] is None
    assert data["integrity"]["audit"] is None


def test_logs_of_some_parties_are_not_taken_for_all(attacked, dossier, tmp_path):
    with RunFolder(attacked).stores([ONE], Passphrase(PASSPHRASE)) as stores:
        log = LogFile.of(stores[ONE], stored_identity(stores[ONE]))
    (tmp_path / "log").write_text(log.to_json())
    text, pages, _ = dossier(attacked, "--log", tmp_path / "log")
    assert "Signed logs: not of aggregator, bank02, payment network" in text
    assert "logs of parties: 1, which fit together" in pages["index"].words


def test_parties_without_keys_have_no_log(run, key, dossier):
    assert holds_store(run / ONE)
    text, _, data = dossier(run, "--key-file", key)
    assert "Signed logs: none was read" in text
    assert data["integrity"]["audit"] is None


def test_without_data_thresholds_are_counted_and_stability_is_missing(
    document, tables, tmp_path, dossier
):
    made = predictions(tables.test.transactions)
    text, pages, data = dossier(write_run(tmp_path / "run", document, made))
    assert "Stability over time: the data is not named" in text
    levels = {one["multiple"]: one for one in data["validation"]["thresholds"]["levels"]}
    assert levels[1]["alerts"] == made["Alert"].sum()
    assert levels[1]["found"] is None
    assert "Stability over time" in pages["validation"].words


@pytest.mark.parametrize("name", sorted(PAGES))
def test_hostile_text_is_shown_as_text_and_nothing_is_fetched(hostile_dossier, name):
    seen = Seen(hostile_dossier[f"{name}.html"])
    assert HOSTILE in seen.words
    tags = {tag for tag, _ in seen.elements}
    assert not tags & {"script", "img", "iframe", "link", "object", "form", "input"}
    for _, attributes in seen.elements:
        for attribute, value in attributes:
            assert not attribute.startswith("on")
            assert attribute not in {"src", "srcset", "style", "xlink:href", "action"}
            assert attribute != "href" or value in {f"{page}.html" for page in PAGES}
    (policy,) = (
        dict(attributes)["content"]
        for tag, attributes in seen.elements
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attributes
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_hostile_text_is_in_the_json_as_it_is(hostile_dossier):
    data = json.loads(hostile_dossier[JSON_FILE])
    for name in ("faults", "notes"):
        assert data["integrity"]["audit"][name] == [{"party": HOSTILE, "what": HOSTILE}]
    assert data["processing"]["schema"]["rows"]["label"] == HOSTILE


@pytest.mark.parametrize("wrong", ["no run", "no file", "not empty", "a file", "no place"])
def test_a_mistake_ends_in_one_line_and_changes_nothing(attacked, tmp_path, pv4fad, wrong):
    to = tmp_path / "dossier"
    words: tuple[object, ...] = (attacked,)
    if wrong == "no run":
        words = (tmp_path,)
    elif wrong == "no file":
        words = (attacked, "--predictions", tmp_path / "nowhere.csv")
    elif wrong == "not empty":
        to.mkdir()
        (to / "precious").touch()
    elif wrong == "a file":
        to.touch()
    else:
        to = tmp_path / "nowhere" / "dossier"
    before = sorted(tmp_path.rglob("*"))
    code, _, error = pv4fad("dossier", *words, "--out", to)
    expected = {
        "no run": "holds no run",
        "no file": "no such file",
        "not empty": "is not empty",
        "a file": "is not a folder",
        "no place": "there is no folder",
    }
    assert code == 2
    assert expected[wrong] in error
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_about_a_single_payment_is_in_it(attacked, hostile_data, key, dossier, whole):
    _, pages, data = dossier(attacked, hostile_data, "--key-file", key)
    said = json.dumps(data) + "".join(page.words for page in pages.values())
    for column in ("MessageId", "OrderingAccount", "BeneficiaryAccount", "OrderingName"):
        for value in whole.predictions[column].cast(str).drop_nulls().unique():
            assert value not in said
