"""`pv4fad train` and `pv4fad verify`, as a user meets them."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.kit.small_federation import PASSPHRASE, write_two_banks
from tests.kit.waiting import comes_true

from pv4fad.cli.main import main
from pv4fad.errors import WorkerError
from pv4fad.protocol.count.state import BankSums, ReleasedCounts
from pv4fad.run.folder import RunFolder
from pv4fad.store.disk import DiskStore
from pv4fad.store.key_sources import read_key_file
from pv4fad.store.records import Records

BANKS = ("bank01", "bank02", "bank03")


@pytest.fixture(scope="module")
def noise_off(tmp_path_factory):
    """Generated data, a run on it without noise, and the key file that the run made."""
    root = tmp_path_factory.mktemp("noise-off")
    data, run, key = root / "data", root / "run", root / "key"
    settings = "--transactions 2000 --banks 3 --difficulty hard --anomaly-rate 0.05 --seed 1"
    with pytest.MonkeyPatch.context() as patch:
        for arguments in (
            ["generate", str(data), *settings.split()],
            _train(data, run, "none", "--key-file", str(key)),
        ):
            patch.setattr(sys, "argv", ["pv4fad", *arguments])
            main()
    return data, run, key


@pytest.fixture
def data(tmp_path, tables):
    write_two_banks(tmp_path / "data", tables)
    return tmp_path / "data"


def _train(data, run, epsilon, *more):
    return ["train", str(data), "--out", str(run), "--epsilon", epsilon, *more]


# A run without noise, and its verification.


def test_a_run_without_noise_equals_the_trusted_third_party(noise_off, pv4fad):
    data, run, key = noise_off
    code, text, _ = pv4fad("verify", run, data, "--key-file", key)
    assert code == 0
    assert "100 % equal" in text


@pytest.mark.parametrize(
    ("place", "part", "what"),
    [
        (("bank02", BankSums, "q"), "exact", "counts"),
        (("payment-network", ReleasedCounts, "counts"), "noisy", "released counts"),
    ],
)
def test_one_wrong_value_fails_the_verification(noise_off, pv4fad, place, part, what):
    (data, run, key), (party, record, array) = noise_off, place
    with _records(run, party, key) as records:
        right = records.get(record)
        wrong = getattr(right, array).copy()
        wrong.flat[0] += 1
        records.put(replace(right, **{array: wrong}))
    code, text, error = pv4fad("verify", run, data, "--key-file", key, "--json")
    with _records(run, party, key) as records:
        records.put(right)
    assert code == 1
    assert "differs from the trusted third party" in error
    result = json.loads(text)
    unequal = [
        (name, one["what"], one["total"] - one["equal"])
        for name in ("exact", "noisy")
        for one in result[name]
        if one["equal"] < one["total"]
    ]
    assert unequal == [(part, what, 1)]


@contextmanager
def _records(run, party, key):
    run_id = RunFolder(run).require_finished().run_id
    with (
        DiskStore.open(run / party, read_key_file(key)) as store,
        store.transaction() as tx,
    ):
        yield Records(tx, run_id)


def test_other_data_is_not_compared(noise_off, pv4fad, data):
    _, run, key = noise_off
    code, _, error = pv4fad("verify", run, data, "--key-file", key)
    assert code == 2
    assert "other banks" in error


def test_a_finished_run_is_not_overwritten(noise_off, pv4fad):
    data, run, _ = noise_off
    before = (run / "run.json").read_bytes()
    for option in ("--json", "--resume"):
        code, _, error = pv4fad(*_train(data, run, "1", option))
        assert code == 2
        assert "holds the finished run" in error
    assert (run / "run.json").read_bytes() == before


def test_the_run_folder_has_one_folder_per_party_closed_to_others(noise_off):
    _, run, key = noise_off
    names = {"payment-network", "aggregator", *BANKS}
    assert {one.name for one in run.iterdir()} == {"run.json", *names}
    assert all(one.stat().st_mode & 0o077 == 0 for one in (key, *(run / name for name in names)))


# A run with noise, through all that can happen to it.


def test_a_run_survives_a_refusal_an_interrupt_a_kill_and_a_changed_file(data, tmp_path, pv4fad):
    run, train = tmp_path / "run", data / "scenario01" / "train"

    # A bank refuses what its limit does not allow; it is named, and nothing is spent.
    code, _, error = pv4fad(*_train(data, run, "1", "--bank-limit", "0.5"))
    assert code == 2
    assert re.search(r"bank0[12]: run", error)  # they answer at the same time
    assert "ledger set-limit" in error
    assert "--resume" in error
    code, _, error = pv4fad(*_train(data, run, "1"))
    assert code == 2
    assert "holds the unfinished run" in error
    assert "--resume" in error
    code, _, error = pv4fad(*_train(data, run, "1", "--resume", "--bank-limit", "1"))
    assert (code, "ledger set-limit" in error) == (2, True)
    for bank in ("bank01", "bank02"):
        assert pv4fad("ledger", "set-limit", run / bank, "1")[0] == 0
    code, _, error = pv4fad("ledger", "set-limit", run / "payment-network", "1")
    assert (code, "keeps no ledger" in error) == (2, True)

    # Interrupted by hand it says how to go on; killed, it says nothing, and it does not matter.
    code, error = _stopped(data, run, signal.SIGINT, after="roster")
    assert code == 130
    assert "interrupted" in error
    assert "Traceback" not in error
    assert _stopped(data, run, signal.SIGKILL, after="blinded-indicators") == (-9, "")

    # What would make it another run is refused.
    code, _, error = pv4fad(*_train(data, run, "1", "--sets", "coarse", "--resume"))
    assert code == 2
    assert "sets coarse: the run to resume has sets fine" in error
    accounts = train / "bank02" / "bank_dataset.csv"
    original = accounts.read_text()
    accounts.write_text(original.rstrip("\n").rsplit("\n", 1)[0] + "\n")
    code, _, error = pv4fad(*_train(data, run, "1", "--resume"))
    assert code == 2
    assert "bank02: the records are not those" in error
    accounts.write_text(original)

    # The end is that of a run that was never disturbed.
    code, text, _ = pv4fad("train", data, "--out", run, "--resume", "--json")
    assert code == 0
    assert json.loads(text) == json.loads((run / "run.json").read_text())
    assert json.loads(text)["state"] == "finished"
    for bank in ("bank01", "bank02"):
        ledger = json.loads(pv4fad("ledger", "show", run / bank, "--json")[1])
        assert (ledger["spent"], ledger["limit"], len(ledger["expenses"])) == ("1", "1", 1)

    # Its counts are exact; what the noise did to them cannot be told from a mistake.
    code, text, error = pv4fad("verify", run, data, "--json")
    assert code == 2
    assert "has noise" in error
    assert "released counts are meant to differ" in " ".join(error.split())
    (released,) = json.loads(text)["noisy"]
    assert released["equal"] < released["total"]
    assert all(one["equal"] == one["total"] for one in json.loads(text)["exact"])


def test_a_run_stopped_before_its_first_message_begins_again(data, tmp_path, pv4fad, monkeypatch):
    run, begun = tmp_path / "run", []

    def stop(new, _store):
        begun.append(new)
        raise WorkerError("stopped by a test")

    monkeypatch.setattr("pv4fad.lead.prepare.NewRun.store", stop)
    options = _train(data, run, "1", "--model", "paper", "--trees", "6")
    code, _, error = pv4fad(*options)
    assert code == 1
    assert "Repeat the command that began it, without --resume." in error
    code, _, error = pv4fad(*_train(data, run, "1"), "--resume")
    assert code == 2
    assert "nothing was sent yet" in error
    assert "without --resume" in error
    assert pv4fad(*options)[0] == 1
    assert [new.parameters.sizes.n_trees for new in begun] == [6, 6]
    # Another run: the first one's hash key and seed are gone, and nobody has seen them.
    assert begun[0].parameters.run_id != begun[1].parameters.run_id
    assert RunFolder(run).require_unfinished().run_id == begun[1].parameters.run_id


def _stopped(data, run, how, *, after):
    """Resumes a run and stops it once a message of the kind `after` is on its way."""
    arguments = ["train", str(data), "--out", str(run), "--resume"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pv4fad", *arguments],
        env=os.environ | {"PV4FAD_PASSPHRASE": PASSPHRASE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    document = run / "run.json"
    assert comes_true(
        lambda: process.poll() is not None or f'"kind": "{after}"' in document.read_text(), 600
    )
    # As a terminal does with Ctrl-C: everybody in the group gets it.
    os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
    _, error = process.communicate()
    return process.returncode, error if how == signal.SIGINT else ""


# Mistakes.


def test_epsilon_has_to_be_given(data, tmp_path, pv4fad):
    code, _, error = pv4fad("train", data, "--out", tmp_path / "run")
    assert code == 2
    assert "--epsilon is missing, and has no default" in error
    assert not (tmp_path / "run").exists()


def test_the_command_line_overrides_the_file_and_no_noise_is_loud(data, tmp_path, pv4fad):
    config = tmp_path / "train.toml"
    config.write_text('epsilon = "none"\nhonest-banks = 1\n')
    options = ("--config", config, "--honest-banks", "3")
    code, _, error = pv4fad("train", data, "--out", tmp_path / "run", *options)
    assert code == 2
    assert "NO NOISE, NO PRIVACY" in error
    assert "3 honest parties have to add noise, but only 2 keep records" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "lots"], "expected a number"),
        (["--epsilon", "0"], "epsilon must be greater than 0"),
        (["--epsilon", "1", "--model", "oak"], "model"),
        (["--epsilon", "1", "--sets", "auto"], "sets"),
        (["--epsilon", "1", "--alert-share", "0.5"], "alert_share"),
        (["--epsilon", "1", "--trees", "6"], "trees is an option of model paper only"),
        (
            ["--epsilon", "1", "--model", "paper", "--sets", "coarse"],
            "sets is an option of model evidence only",
        ),
        (["--epsilon", "1", "--model", "paper", "--height", "90"], "height"),
        (["--epsilon", "1", "--model", "paper", "--trees", "0"], "trees"),
        (["--epsilon", "1", "--model", "paper", "--bound", "1000000"], "bound"),
        (["--epsilon", "1", "--workers", "-1"], "workers"),
        (["--epsilon", "1", "--scenario", "other"], "has no scenario 'other'"),
        (["--epsilon", "1", "--config", "absent.toml"], "absent.toml"),
        (["--epsilon", "1", "--resume"], "no run to resume"),
        (["--epsilon", "1", "--key-file", "/"], "key file /"),
    ],
)
def test_a_mistake_is_one_line_that_names_it_and_leaves_nothing(
    data, tmp_path, pv4fad, options, message
):
    code, _, error = pv4fad("train", data, "--out", tmp_path / "run", *options)
    assert code == 2
    assert message in error.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("epsilon", "warned"), [("2", False), ("2.1", True)])
def test_a_weak_epsilon_is_called_weak(data, tmp_path, pv4fad, epsilon, warned):
    """Told before the data are read, which a file is missing of here."""
    (data / "scenario01" / "train" / "bank02" / "bank_dataset.csv").unlink()
    _, _, error = pv4fad(*_train(data, tmp_path / "run", epsilon))
    said = " ".join(error.split())
    assert ("is weak protection" in said) == warned
    assert ("guess right with a probability of up to 89%" in said) == warned


def test_without_a_passphrase_nothing_is_written(data, tmp_path, pv4fad, monkeypatch):
    monkeypatch.delenv("PV4FAD_PASSPHRASE")
    code, _, error = pv4fad(*_train(data, tmp_path / "run", "1"))
    assert code == 2
    assert "give --key SOURCE" in error
    monkeypatch.setenv("PV4FAD_PASSPHRASE", "short")
    code, _, error = pv4fad(*_train(data, tmp_path / "run", "1"))
    assert code == 2
    assert "12 characters" in error
    assert not (tmp_path / "run").exists()


def test_bad_data_is_named_and_leaves_nothing(data, tmp_path, pv4fad):
    accounts = data / "scenario01" / "train" / "bank02" / "bank_dataset.csv"
    accounts.unlink()
    code, _, error = pv4fad(*_train(data, tmp_path / "run", "1"))
    assert code == 2
    assert str(accounts) in error
    assert not (tmp_path / "run").exists()


def test_verify_needs_a_finished_run(data, tmp_path, pv4fad):
    code, _, error = pv4fad("verify", tmp_path / "nowhere", data)
    assert code == 2
    assert "holds no run" in error
