"""Which folders of a challenge layout to train on, and to score."""

from __future__ import annotations

from pathlib import Path

from pv4fad.errors import DataError, ParameterError
from pv4fad.payments.challenge import PARTITIONS_FILE, SCENARIOS_FILE, read_scenarios


def training_split(folder: Path, scenario: str | None = None) -> Path:
    """The train folder of a challenge folder or a scenario, or the split folder itself."""
    if not folder.is_dir():
        raise DataError(f"{folder}: not found, or not a folder")
    if (folder / PARTITIONS_FILE).is_file():
        return folder
    if (folder / SCENARIOS_FILE).is_file():
        folder = folder / _choose(folder, scenario)
    if not (folder / "train" / PARTITIONS_FILE).is_file():
        raise DataError(
            f"{folder}: not a challenge folder ({SCENARIOS_FILE}), a scenario (train/) "
            f"or a split ({PARTITIONS_FILE})"
        )
    return folder / "train"


def scoring_splits(folder: Path, scenario: str | None = None) -> tuple[Path, Path]:
    """The train and test folder of a challenge folder or a scenario."""
    train = training_split(folder, scenario)
    if train == folder:
        raise DataError(f"{folder}: is one split; name the folder that holds train and test")
    test = train.parent / "test"
    if not (test / PARTITIONS_FILE).is_file():
        raise DataError(f"{train.parent}: has no test split (test/{PARTITIONS_FILE}) to score")
    return train, test


def account_split(folder: Path, scenario: str | None = None) -> Path:
    """Where the banks' present account files are: the test split if there is one."""
    train = training_split(folder, scenario)
    test = train.parent / "test"
    return test if train != folder and (test / PARTITIONS_FILE).is_file() else train


def _choose(folder: Path, scenario: str | None) -> str:
    names = read_scenarios(folder)
    if scenario is None and len(names) == 1:
        return names[0]
    if scenario not in names:
        problem = "has several scenarios" if scenario is None else f"has no scenario {scenario!r}"
        raise ParameterError(f"{folder} {problem}: give --scenario, one of {', '.join(names)}")
    return scenario
