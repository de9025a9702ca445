"""`pv4fad generate`, end to end, and what it refuses."""

import json
from pathlib import Path

import polars as pl
import pytest

from pv4fad.errors import DataError, ParameterError
from pv4fad.payments.challenge import read_partition, read_scenarios
from pv4fad.payments.generate import Difficulty, Settings, folder, generate, generate_tables
from pv4fad.payments.loading import load_partition

SMALL = Settings(2_000, 4, Difficulty.HARD, seed=1, anomaly_rate=0.02)


def _small(path: Path, *further: str) -> list[str]:
    return ["generate", str(path), "--transactions", "4000", "--banks", "5", "--difficulty", "hard",
            "--seed", "3", "--anomaly-rate", "0.01", *further]  # fmt: skip


def test_the_folder_is_a_challenge_folder_that_loads(tmp_path, command_line):
    code, out, _ = command_line(*_small(tmp_path / "data"))
    assert code == 0
    assert "Leak check" in out
    assert "train: 3,4" in out
    assert read_scenarios(tmp_path / "data") == ("scenario01",)
    scenario = tmp_path / "data" / "scenario01"
    assert (scenario / "test/swift/predictions_format.csv").is_file()
    settings = Settings(4_000, 5, Difficulty.HARD, 3, anomaly_rate=0.01)
    expected = generate_tables(settings)
    for split, messages in (("train", expected.train), ("test", expected.test)):
        assert set(read_partition(scenario / split).accounts) == {f"bank0{n}" for n in range(1, 6)}
        loaded = load_partition(scenario / split)
        assert loaded.transactions.has_labels
        assert loaded.transactions.frame.equals(messages.transactions)
        for client, frame in expected.accounts.items():
            assert loaded.accounts[client].frame.equals(frame)
        kinds = pl.read_csv(scenario / f"anomaly_kinds_{split}.csv")
        assert kinds["MessageId"].to_list() == messages.kinds["MessageId"].to_list()


def test_data_check_finds_nothing_wrong(tmp_path, command_line):
    assert command_line(*_small(tmp_path / "data"))[0] == 0
    code, out, _ = command_line("data", "check", str(tmp_path / "data"))
    assert code == 0
    assert "No problems found" in out


def test_json_holds_every_column_of_the_leak_check(tmp_path, command_line):
    code, out, _ = command_line(*_small(tmp_path / "data", "--json"))
    made = json.loads(out)
    assert code == 0
    assert made["rows"]["train"] + made["rows"]["test"] == 4_000
    assert len(made["leaks"]) > 40
    assert {"column", "ranking", "average_precision"} == set(made["leaks"][0])


def test_equal_seeds_give_equal_files_and_other_seeds_others(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / name, Settings(2_000, 4, Difficulty.CHALLENGE, seed))
    files = {
        name: {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in "abc"
    }
    assert files["a"] == files["b"]
    swift = Path("scenario01/train/swift/swift_transaction_train_dataset.csv")
    assert files["a"][swift] != files["c"][swift]


def test_a_data_set_is_replaced_only_when_forced(tmp_path, command_line):
    assert command_line(*_small(tmp_path / "data"))[0] == 0
    marker = tmp_path / "data" / "marker"
    marker.write_text("mine")
    code, _, err = command_line(*_small(tmp_path / "data"))
    assert (code, marker.exists()) == (2, True)
    assert "--force" in err
    assert command_line(*_small(tmp_path / "data", "--force"))[0] == 0
    assert not marker.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_other_files_are_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(DataError, match="holds other files"):
        generate(tmp_path, SMALL, force=True)
    with pytest.raises(DataError, match="is a file"):
        generate(tmp_path / "thesis.tex", SMALL, force=True)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_failure_leaves_the_old_data_and_no_half_of_the_new(tmp_path, monkeypatch):
    place = tmp_path / "data"
    generate(place, SMALL)
    before = sorted(place.rglob("*"))
    write, calls = folder.write_partition, []

    def fail_at_second(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError("disk full")
        return write(*arguments)

    monkeypatch.setattr(folder, "write_partition", fail_at_second)
    with pytest.raises(OSError, match="disk full"):
        generate(place, SMALL, force=True)
    calls.clear()
    with pytest.raises(OSError, match="disk full"):
        generate(tmp_path / "new", SMALL)
    assert sorted(place.rglob("*")) == before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--transactions", "999"], "transactions 999"),
        (["--banks", "2"], "banks 2"),
        (["--transactions", "1000", "--banks", "50"], "banks 50"),
        (["--anomaly-rate", "0"], "anomaly-rate 0"),
        (["--anomaly-rate", "nan"], "anomaly-rate nan"),
        (["--accounts", "20"], "accounts 20"),
        (["--accounts", "4001"], "accounts 4001"),
        (["--seed", "-1"], "seed -1"),
        (["--difficulty", "easy"], "difficulty"),
    ],
)
def test_a_bad_parameter_is_named_and_nothing_is_written(tmp_path, command_line, options, name):
    code, _, err = command_line(*_small(tmp_path / "data"), *options)
    assert code == 2
    assert name in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_accounts_can_be_chosen():
    made = generate_tables(Settings(4_000, 5, Difficulty.HARD, 3, accounts=1_500))
    assert sum(frame.height for frame in made.accounts.values()) == 1_500
    with pytest.raises(ParameterError, match="accounts"):
        Settings(4_000, 5, Difficulty.HARD, 3, accounts=99)
