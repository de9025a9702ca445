"""The insurer's world: data that are not payments, from files to verified predictions."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import polars as pl
import pytest
from tests.kit.notebook import has_output, run_notebook

from pv4fad.cli import console
from pv4fad.cli.data_schema import require_schema_of
from pv4fad.cli.main import main
from pv4fad.errors import ParameterError
from pv4fad.protocol.parameters import RunParameters
from pv4fad.rules import read_rules
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.scoring_record import record_path
from pv4fad.schema import read_schema
from pv4fad.tables.reading import read_records, read_rows

FOLDER = Path(__file__).parents[2] / "examples" / "insurer"
SCHEMA, NOTEBOOK = FOLDER / "schema.toml", FOLDER / "insurer.ipynb"


def _generator():
    spec = spec_from_file_location("insurer_generate", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


generator = _generator()


@pytest.fixture
def data(tmp_path):
    """All four holders, few claims."""
    generator.write(generator.generate(200, seed=3), tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The data, a run on it without noise, its predictions, and the key file.

    One hospital and one laboratory take part, for speed; the others are outside, too.
    """
    root = tmp_path_factory.mktemp("insurer")
    data, run, made, key = (root / name for name in ("data", "run", "predictions.csv", "key"))
    world = generator.generate(1800, seed=2)
    records = {name: world.records[name] for name in ("north", "alpha")}
    generator.write(replace(world, records=records), data)
    with (
        pytest.MonkeyPatch.context() as patch,
        console.out.capture() as out,  # not the process's: threads of other tests may write there
        console.err.capture() as err,
    ):
        for arguments in (
            ("train", data, "--schema", SCHEMA, "--out", run, "--epsilon", "none",
             "--alert-share", "0.05", "--seed", "1", "--key-file", key),
            ("score", run, data, "--out", made, "--key-file", key),
        ):  # fmt: skip
            patch.setattr(sys, "argv", ["pv4fad", *map(str, arguments)])
            main()
    (root / "printed").write_text(out.get() + err.get())
    return data, run, made, key


@pytest.fixture(scope="module")
def said(run):
    """What the commands of the run printed."""
    text = (run[0].parent / "printed").read_text()
    assert "insurer" in text
    return text


def test_claims_name_holders_that_take_part_are_unknown_or_are_outside(run, command_line):
    data, *_ = run
    code, out, _ = command_line("data", "check", data, "--json")
    assert code == 0
    for part in json.loads(out)["partitions"]:
        assert part["rows"] == 900
        assert list(part["holders"]) == ["alpha", "north"]
        for side in part["sides"].values():
            assert min(side["known"], side["unknown"], side["outside"]) > 10
            assert side["known"] <= side["found"] < side["known"] + side["unknown"]


def test_a_run_and_its_predictions_equal_the_trusted_third_party(run, command_line):
    data, folder, made, key = run
    code, out, _ = command_line(
        "verify", folder, data, "--predictions", made, "--key-file", key, "--json"
    )
    result = json.loads(out)
    assert (code, result["all_equal"]) == (0, True)
    compared = {one["what"]: one["total"] for one in (*result["exact"], *result["noisy"])}
    assert min(compared["counts"], compared["bits"], compared["scores"]) > 50


@pytest.mark.slow
def test_a_run_with_all_four_holders_equals_the_trusted_third_party(tmp_path, command_line):
    data, folder, made, key = (tmp_path / name for name in ("data", "run", "made.csv", "key"))
    generator.write(generator.generate(1800, seed=2), data)
    for arguments in (
        ("train", data, "--out", folder, "--epsilon", "none", "--alert-share", "0.05",
         "--seed", "1", "--key-file", key),
        ("score", folder, data, "--out", made, "--key-file", key),
    ):  # fmt: skip
        code, _, err = command_line(*arguments)
        assert code == 0, err
    assert set(RunFolder(folder).require_finished().parameters.banks) == set(generator.RULES)
    code, out, _ = command_line(
        "verify", folder, data, "--predictions", made, "--key-file", key, "--json"
    )
    assert (code, json.loads(out)["all_equal"]) == (0, True)


def test_records_of_both_sides_raise_alerts(run):
    data, _, made, _ = run
    raised = pl.read_csv(made).filter(
        (pl.col("Alert") == 1) & (pl.col("Score") > pl.col("LocalScore"))
    )
    records = {
        holder: read_records(
            read_schema(SCHEMA),
            data / "test" / holder / "records.csv",
            holder=holder,
            rules=read_rules(data / "test" / holder / "rules.toml"),
        ).frame.filter(pl.col("Class").cast(pl.String) != "ordinary")
        for holder in ("north", "alpha")
    }
    rows = read_rows(
        read_schema(SCHEMA), data / "test" / "lead" / "rows.csv", labels_required=True
    ).frame.filter(pl.col("ClaimId").is_in(raised["ClaimId"].implode()))
    assert rows["PatientId"].is_in(records["north"]["Id"].implode()).any()
    assert rows["OrderId"].is_in(records["alpha"]["Id"].implode()).any()


def test_predictions_are_evaluated_and_reported(run, command_line, tmp_path):
    data, folder, made, key = run
    code, out, _ = command_line("evaluate", folder, data, "--predictions", made, "--joined")
    assert code == 0
    assert "900 claims" in out
    page = tmp_path / "report.html"
    code, out, _ = command_line(
        "report", folder, data, "--predictions", made, "--key-file", key, "--out", page
    )
    assert code == 0
    assert "Not in it" not in out


def test_data_of_another_schema_are_refused_wherever_a_run_is_used(run, command_line, tmp_path):
    _, folder, made, key = run
    trained = read_schema(SCHEMA)
    (tmp_path / "schema.toml").write_text(SCHEMA.read_text().replace('"amended"', '"changed"'))
    other = read_schema(tmp_path / "schema.toml")
    begun = tmp_path / "begun"
    begun.mkdir()
    document = json.loads((folder / "run.json").read_text())
    (begun / "run.json").write_text(json.dumps(document | {"state": "unfinished"}))
    for arguments in (
        ("score", folder, tmp_path, "--out", tmp_path / "new.csv", "--key-file", key),
        ("refresh", folder, tmp_path, "--key-file", key),
        ("verify", folder, tmp_path, "--key-file", key),
        ("evaluate", folder, tmp_path, "--predictions", made),
        ("report", folder, tmp_path, "--predictions", made, "--out", tmp_path / "report.html"),
        ("attack", folder, tmp_path, "--key-file", key),
        ("dossier", folder, tmp_path, "--predictions", made, "--out", tmp_path / "dossier"),
        ("train", run[0], "--schema", tmp_path / "schema.toml", "--out", begun, "--epsilon", "1"),
    ):
        named = [run[0] if one is tmp_path else one for one in arguments]
        named += [] if "--schema" in named else ["--schema", tmp_path / "schema.toml"]
        for given in (arguments, named):  # found in DIR, and named for data that have a good one
            code, _, err = command_line(*given)
            assert code == 2, given
            for said in ("is not that of the run", other.digest[:12], trained.digest[:12]):
                assert said in " ".join(err.split()), given
    (tmp_path / "schema.toml").write_text(SCHEMA.read_text().replace('"claim"', '"bill"'))
    require_schema_of(RunFolder(folder), tmp_path, None)  # words may differ


def of_payments(text: str) -> set[str]:
    """Words that have no place in another world."""
    return {word.lower() for word in re.findall(r"(?i)\bBICs?\b|flag|swift|bank|payment", text)}


def test_the_summary_is_by_the_schema(data, command_line):
    code, out, _ = command_line("data", "check", data)
    assert code == 0
    for words in ("schema", "claims", "side patient", "side order", "holder north", "holder beta"):
        assert words in out


def test_nothing_speaks_of_payments(run, said, command_line):
    data, folder, made, key = run
    page, pages, party = (data.with_name(name) for name in ("report.html", "dossier", "party"))
    record = json.loads(record_path(made).read_text())
    del record["traffic"]  # which has names of parties, as folders have
    texts = [said, made.read_text(), str(record)]
    for arguments in (
        ("data", "check", data),
        ("verify", folder, data, "--predictions", made, "--key-file", key),
        ("evaluate", folder, data, "--predictions", made),
        ("report", folder, data, "--predictions", made, "--key-file", key, "--out", page),
        ("ledger", "show", folder / "north", "--key-file", key),
        ("ledger", "set-limit", folder / "north", "2", "--key-file", key),
        ("verify", folder, data, "--key-file", key, "--json"),
        ("evaluate", folder, data, "--predictions", made, "--json"),
        ("attack", folder, data, "--releases", "1000", "--worlds", "0", "--key-file", key),
        ("dossier", folder, data, "--predictions", made, "--key-file", key, "--out", pages),
        ("refresh", folder, data, "--key-file", key),
        ("party", "init", party, "--role", "bank", "--name", "north", "--schema", SCHEMA,
         "--data", data / "train" / "north" / "records.csv", "--limit", "1", "--key-file", key),
    ):  # fmt: skip
        code, out, err = command_line(*arguments)
        assert code == 0, (arguments, err)
        texts += [out, err]
    code, out, err = command_line("party", "check", party, "--key-file", key)
    assert (code, "the card of the insurer is missing" in out) == (1, True)
    texts += [out, err, *(one.read_text() for one in pages.glob("*.html")), page.read_text()]
    for word in ("claims", "insurer alone", "with the holders"):
        assert word in texts[-1]
    assert [(text, of_payments(text)) for text in texts if of_payments(text)] == []


def test_a_claim_of_privacy_does_not_either(run):
    document = RunFolder(run[1]).require_finished()
    noisy = {"epsilon": "1", "noise": "distributed"}
    parameters = RunParameters(**document.parameters.model_dump() | noisy)
    new = RunDocument.of_new_run(parameters, document.data_schema, document.begun)
    for text in (new.privacy.claim, new.privacy.unit, new.privacy.outside_the_claim):
        assert text
        assert of_payments(text) == set()
    assert "at least 1 of the 2 holders add their noise" in new.privacy.claim
    with pytest.raises(ParameterError) as refused:
        RunParameters(**parameters.model_dump() | {"honest_banks": 9})
    assert of_payments(str(refused.value)) == set()


def test_the_schema_is_found_beside_a_split(data, command_line):
    code, out, _ = command_line("data", "check", data / "test")
    assert code == 0
    assert "holder north" in out


@pytest.mark.parametrize("holder", generator.RULES)
def test_rules_give_the_classes_that_were_generated(holder):
    world = generator.generate(6000, seed=5)
    schema = read_schema(SCHEMA)
    rules = read_rules(generator.RULES[holder])
    found = read_records(schema, world.records[holder], holder=holder, rules=rules).frame
    shares = found["Class"].value_counts(normalize=True)
    for name, share in shares.iter_rows():
        expected = generator.SHARES[generator.CLASSES.index(name)]
        assert share == pytest.approx(expected, abs=0.02 + expected / 20)
    assert shares.height == len(generator.CLASSES)


def _replaced(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def _copied(name: str) -> Callable[[Path], None]:
    return lambda path: path.with_name(name).write_bytes(path.read_bytes()) and None


BAD_INPUT: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "no column of a side": (
        "train/lead/rows.csv",
        _replaced("PatientId", "Patient"),
        "train/lead/rows.csv: column PatientId: missing",
    ),
    "no number": (
        "train/lead/rows.csv",
        lambda path: pl.read_csv(path).with_columns(Amount=pl.lit("much")).write_csv(path),
        "train/lead/rows.csv: column Amount: 100 rows have no finite number",
    ),
    "no labels in training": (
        "train/lead/rows.csv",
        lambda path: pl.read_csv(path).drop("Fraud").write_csv(path),
        "train/lead/rows.csv: column Fraud: missing",
    ),
    "unknown namespace": (
        "train/north/records.csv",
        _replaced("\npatient,", "\nperson,"),
        "train/north/records.csv: column Kind: 1 row has an unknown namespace (known: order,",
    ),
    "column of a rule": (
        "train/south/records.csv",
        _replaced("IdentityMark", "Mark"),
        "train/south/records.csv: rule 2 (class 'disputed'): there is no column 'IdentityMark'",
    ),
    "class of a rule": (
        "train/beta/rules.toml",
        _replaced("disputed", "contested"),
        "train/beta/rules.toml: rule 2 (class 'contested'): there is no such class",
    ),
    "two tables": (
        "train/alpha/records.csv",
        _copied("records.parquet"),
        "train/alpha: has both records.csv and records.parquet",
    ),
    "no table": (
        "train/alpha/records.csv",
        Path.unlink,
        "train/alpha: has neither records.csv nor records.parquet",
    ),
    "name of a holder": (
        "train/alpha",
        lambda path: path.rename(path.with_name("lab alpha")) and None,
        "holder 'lab alpha': a name has letters",
    ),
    "name of another party": (
        "train/alpha",
        lambda path: path.rename(path.with_name("aggregator")) and None,
        "holder 'aggregator': another party has this name",
    ),
    "no rows": (
        "train/lead/rows.csv",
        lambda path: path.write_text(path.read_text().splitlines()[0]) and None,
        "train/lead/rows.csv: the file is empty",
    ),
    "no folder of the lead": (
        "train/lead",
        lambda path: path.rename(path.with_name("insurer")) and None,
        "train/partitions.json: not found, and no folder lead/ either",
    ),
    "no schema": ("schema.toml", Path.unlink, ": has no schema.toml"),
    "wrong schema": ("schema.toml", _replaced("numbers", "number"), "schema.toml: rows: number"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_clear_error(data, command_line, case):
    file, spoil, message = BAD_INPUT[case]
    spoil(data / file)
    code, out, err = command_line("data", "check", data)
    assert code == 2
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert line.removeprefix("error: ").removeprefix(str(data)).lstrip("/").startswith(message)
    assert "No problems found" not in out


def test_bad_rows_are_dropped_on_request_and_counted(data, command_line):
    _replaced("\npatient,", "\nperson,")(data / "train" / "north" / "records.csv")
    rows = data / "train" / "lead" / "rows.csv"
    pl.read_csv(rows).with_columns(Amount=pl.lit("much")).head(1).write_csv(rows.with_name("bad"))
    rows.write_text(rows.read_text() + (rows.with_name("bad")).read_text().splitlines()[1] + "\n")
    code, out, _ = command_line("data", "check", data / "train", "--drop-bad-rows")
    assert code == 0
    assert "column Kind: 1 row has an unknown namespace" in out
    assert "1 of 101 rows dropped" in out
    assert "No problems found" in out


def test_training_refuses_the_same_and_leaves_no_run(data, command_line, tmp_path):
    _replaced("OrderId", "Order")(data / "train" / "lead" / "rows.csv")
    code, _, err = command_line(
        "train", data, "--out", tmp_path / "run", "--epsilon", "1", "--key-file", tmp_path / "key"
    )
    assert code == 2
    assert "column OrderId: missing" in err
    assert not (tmp_path / "run").exists()


def test_only_payments_are_converted(data, command_line, tmp_path):
    code, _, err = command_line("data", "convert", data, tmp_path / "converted", "--to", "parquet")
    assert code == 2
    assert "only payments can be converted" in err


def test_the_notebook_is_kept_without_output():
    assert not has_output(NOTEBOOK)


@pytest.mark.slow
def test_the_notebook_runs():
    names = run_notebook(NOTEBOOK)
    predictions, gain = names["predictions"], names["gain"]
    assert predictions.height == names["new"].height
    assert gain["score"].to_list() == ["LocalScore", "Score"]
    assert 0 < names["alerts"].height < predictions.height / 10
