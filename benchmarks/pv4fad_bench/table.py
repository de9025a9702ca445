"""`pv4fad bench table`: the paper's table of run times, with this system beside it.

The paper reports minutes on a Tesla P100 for 800 red leaves and one bank, with
at most 15 transactions per account at inference.  A row is the same job here: all HE phases, all
parties' work, through encoded bytes, on this machine's cores.  It is done twice: with the paper's
model, which ends with vote totals, and with the default one, which ends with decisions.

For perspective every row also has the cost of the paper's own way to train, which repeats the
equality tests for every leaf and label: measured for one leaf, and scaled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pv4fad
import pv4fad_bench
from pv4fad import __version__
from pv4fad.errors import DataError, ParameterError
from pv4fad.files import write_whole
from pv4fad.protocol.layouts import cheapest_layout
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.tables import padded
from pv4fad.workers import Workers, available_cores
from pv4fad_bench.estimates import match_seconds, score_seconds
from pv4fad_bench.evidence_workload import EvidenceWorkload
from pv4fad_bench.harness import Phase, Progress, Traffic, this_machine
from pv4fad_bench.match import bench_match
from pv4fad_bench.paper_workload import PaperWorkload
from pv4fad_bench.score import n_queries
from pv4fad_bench.whole import WholeJob, run_whole_job
from pv4fad_bench.workload import Workload

PER_ACCOUNT = 15
GROUPS_PER_TREE = 34
LABELS = 2
_USUAL_OVERHEAD = 1.2  # for the estimate: what comes besides match and score


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's table."""

    number: int
    pns_accounts: int
    bank_accounts: int
    transactions: int
    training_min: float
    inference_min: float


PAPER = (
    PaperRow(1, 100_000, 100_000, 1_500_000, 16, 130),
    PaperRow(2, 100_000, 100_000, 1_000_000, 18, 53),
    PaperRow(3, 200_000, 100_000, 1_000_000, 35, 54),
    PaperRow(4, 300_000, 100_000, 1_000_000, 51, 55),
    PaperRow(5, 400_000, 100_000, 1_000_000, 60, 55),
    PaperRow(6, 100_000, 500_000, 1_000_000, 20, 58),
    PaperRow(7, 100_000, 1_500_000, 1_000_000, 21, 55),
    PaperRow(8, 100_000, 2_000_000, 1_000_000, 21, 53),
)


@dataclass(frozen=True)
class Setting:
    """What a row was run with: rows with other settings are not compared."""

    scale: float = 1.0
    workers: Workers = None

    def __post_init__(self) -> None:
        if not 0 < self.scale <= 1:
            raise ParameterError(f"scale {self.scale}: give a number above 0 and at most 1")

    def workload(self, row: PaperRow) -> PaperWorkload:
        """The accounts and the forest of a row."""
        sizes = self._scaled(row.pns_accounts), self._scaled(row.bank_accounts)
        return PaperWorkload(*sizes, groups_per_tree=GROUPS_PER_TREE)

    def default_model(self, row: PaperRow) -> EvidenceWorkload:
        """The same accounts for the default model."""
        return EvidenceWorkload(self._scaled(row.pns_accounts), self._scaled(row.bank_accounts))

    def transactions(self, row: PaperRow) -> int:
        return min(self._scaled(row.transactions), PER_ACCOUNT * self._scaled(row.pns_accounts))

    def _scaled(self, n: int) -> int:
        return max(1, round(n * self.scale))


@dataclass(frozen=True)
class RowResult:
    """A row as measured."""

    row: PaperRow
    setting: Setting
    red_leaves: int
    job: WholeJob  # the paper's model, and vote totals
    decisions: WholeJob  # the default model, and decisions
    leaf_s: float  # one leaf and label as the paper does it
    machine: dict[str, Any] = field(default_factory=lambda: dict(this_machine()))

    @property
    def paper_style_s(self) -> float:
        """Training as the paper's figure has it: equality tests for every leaf and label."""
        return self.leaf_s * self.red_leaves * LABELS

    @property
    def training_ratio(self) -> float:
        """How many times faster than the paper; only of full size."""
        return self.row.training_min * 60 / self.job.train_s

    @property
    def checks(self) -> dict[str, bool]:
        """Of both models."""
        default = {f"default model: {claim}": one for claim, one in self.decisions.checks.items()}
        return self.job.checks | default

    @property
    def inference_ratio(self) -> float:
        """Of vote totals; decisions are not what the paper computes."""
        return self.row.inference_min * 60 / self.job.score_s


def rows_of(numbers: Sequence[int]) -> tuple[PaperRow, ...]:
    """Rows by their numbers."""
    by_number = {row.number: row for row in PAPER}
    if unknown := [number for number in numbers if number not in by_number]:
        raise ParameterError(f"there is no row {unknown[0]}: give numbers from 1 to {len(PAPER)}")
    return tuple(by_number[number] for number in dict.fromkeys(numbers))


class FinishedRows:
    """The rows that are done, kept in a file as soon as they are."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.results: dict[int, RowResult] = {}

    def load(self, setting: Setting) -> None:
        """Rows of an earlier call with the same setting."""
        if self._path is None or not self._path.exists():
            return
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            code, found = document["code"], [_result(one) for one in document["rows"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self._path} holds no rows of this table; give another file, or delete it"
            ) from error
        if code != _code() or any(one.setting != setting for one in found):
            raise DataError(
                f"{self._path} holds rows of another version, scale or number of workers; "
                "give another file, or delete it"
            )
        self.results = {one.row.number: one for one in found}

    def add(self, result: RowResult) -> None:
        """A row is done."""
        self.results[result.row.number] = result
        if self._path is not None:
            rows = [asdict(self.results[number]) for number in sorted(self.results)]
            document = {"pv4fad": __version__, "code": _code(), "rows": rows}
            write_whole(self._path, json.dumps(document, indent=2) + "\n")


@cache
def _code() -> str:
    """Tells this program from any other, released or not."""
    digest = sha256()
    for package in (pv4fad, pv4fad_bench):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def bench_table(
    rows: Sequence[PaperRow], setting: Setting, finished: FinishedRows, progress: Progress
) -> None:
    """Run the rows that are not done yet."""
    to_do = [row for row in rows if row.number not in finished.results]
    if not to_do:
        return
    seconds, steps = estimate(to_do, setting)
    progress.begin(seconds, steps)
    for row in to_do:
        finished.add(run_row(row, setting, progress.advance))


def run_row(row: PaperRow, setting: Setting, advance: Callable[[], None]) -> RowResult:
    """One row, and one leaf of it in the paper's way."""
    workload = setting.workload(row)
    votes, decisions = (
        run_whole_job(
            one,
            n_transactions=setting.transactions(row),
            per_account=PER_ACCOUNT,
            workers=setting.workers,
            advance=advance,
        )
        for one in (workload, setting.default_model(row))
    )
    leaf_s = bench_match(one_leaf(workload), setting.workers, _Silent()).wall_s
    advance()
    n_leaves = workload.forest.sizes.n_leaves
    return RowResult(row, replace(setting), n_leaves, votes, decisions, leaf_s)


def one_leaf(workload: PaperWorkload) -> EvidenceWorkload:
    """The accounts of one red leaf: a tree spreads all of them over its leaves.

    A match with a single atom, as the paper's equality test has it.
    """
    per_tree = workload.groups_per_tree * 2
    return EvidenceWorkload(
        max(1, workload.pns_accounts // per_tree),
        workload.bank_accounts,
        n_classes=2,
        absent="ordinary",
    )


def estimate(rows: Sequence[PaperRow], setting: Setting) -> tuple[float, int]:
    """Seconds that all rows are likely to take, and steps."""
    seconds, steps = 0.0, len(rows)  # a step for one leaf of each
    small = (
        PaperWorkload(1000, 1000, groups_per_tree=GROUPS_PER_TREE),
        EvidenceWorkload(1000, 1000),
    )
    for like in small:
        model, n_layers = like.parameters(), like.n_layers(PER_ACCOUNT)
        for row in rows:
            workload = setting.workload(row)
            parameters = _sized(model, workload)
            seconds += match_seconds(parameters) + score_seconds(parameters, n_layers)
            if isinstance(like, PaperWorkload):
                seconds += match_seconds(_sized(model, one_leaf(workload)))
            steps += n_steps(parameters, n_layers)
    n_cores = setting.workers if isinstance(setting.workers, int) else available_cores()
    seconds /= max(1, n_cores)
    return _USUAL_OVERHEAD * seconds, steps


def n_steps(parameters: RunParameters, n_layers: int) -> int:
    """Messages of match and score that a job waits for."""
    n_match = sum(len(parameters.match_steps(bank)) for bank in parameters.banks)
    return n_match + n_queries(parameters, n_layers)


def _sized(like: RunParameters, workload: Workload) -> RunParameters:
    """The parameters of a workload without generating it."""
    layout = cheapest_layout(
        padded(workload.pns_accounts),
        padded(workload.bank_accounts),
        n_trees=like.sizes.n_trees,
        n_atoms=like.sizes.n_atoms,
    )
    return RunParameters(
        **like.model_dump(exclude={"tables", "banks"}),
        banks=dict.fromkeys(like.banks, padded(workload.bank_accounts)),
        tables=tuple(
            TablePlan(table_id=bank, banks=(bank,), broadcast=False, layout=layout)
            for bank in like.banks
        ),
    )


class _Silent:
    """Nobody waits for this part alone."""

    def begin(self, expected_s: float, n_steps: int) -> None:
        pass

    def advance(self) -> None:
        pass


def _result(document: Mapping[str, Any]) -> RowResult:
    return RowResult(
        PaperRow(**document["row"]),
        Setting(**document["setting"]),
        document["red_leaves"],
        _job(document["job"]),
        _job(document["decisions"]),
        document["leaf_s"],
        document["machine"],
    )


def _job(document: dict[str, Any]) -> WholeJob:
    return WholeJob(
        **document
        | {
            "phases": {name: Phase(**one) for name, one in document["phases"].items()},
            "traffic": tuple(Traffic(**one) for one in document["traffic"]),
        }
    )
