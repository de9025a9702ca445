"""`Detector`: a model that is trained with a federation, in the manner of scikit-learn.

The constructor stores its parameters, `fit` checks them; what is known after fitting has names that
end in `_`.  Unlike an estimator of scikit-learn, a detector needs a federation besides its rows,
and asks the holders again when it predicts.  It has no `score`: there, that measures quality.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from fractions import Fraction
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import Any, Self

import polars as pl

from pv4fad.api.arguments import (
    RulesLike,
    Source,
    by_holder,
    given_passphrase,
    given_records,
    given_rules,
    given_share,
)
from pv4fad.api.deployed import DeployedFederation
from pv4fad.api.federation import Federation
from pv4fad.api.own_table import OwnTable, keep_table, kept_table, table_of
from pv4fad.api.simulated import SimulatedFederation
from pv4fad.errors import DataError, NotFittedError, ParameterError
from pv4fad.lead.desk_labels import rows_as_trained
from pv4fad.lead.prepare import read_training_record
from pv4fad.lead.rows import require_untrained
from pv4fad.lead.score import How
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import party_names
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.run.document import Privacy, RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.schema import Schema
from pv4fad.store.records import copy_run
from pv4fad.workers import WorkerPool, Workers

_SECRET = "seed"  # noqa: S105


class Detector:
    """Detects anomalies among a lead's rows with the help of holders' records, privately.

    >>> detector = pv4fad.Detector(epsilon=1, alert_share=0.05).fit(claims, federation)
    >>> detector
    Detector(epsilon=1, alert_share=0.05)
    >>> detector.privacy_.epsilon, federation.ledgers["south"].spent
    ('1', Fraction(1, 1))

    The parameters are those of `pv4fad train` (docs/operate/training.md).
    `epsilon`: the privacy loss of one record in this training, such as 1; 'none' is no noise and no
    privacy.  `alert_share`: the share of rows expected to become alerts.  `honest_holders`: how
    many holders are assumed to add their noise and keep it to themselves; by default half of them.
    `metered`: answers go by way of the aggregator, which counts the positive ones.
    `seed`: of sampling; by default it is drawn, and secret.  `model`: 'evidence', or 'paper' with
    `scoring`, `trees`, `height` and `bound`.

    After `fit`: `privacy_`, what ε means here; `schema_`; `run_`, what is public about the run;
    `costs_`, a frame; `federation_`; after `detect` or `predict` also `last_scoring_`, what it
    told the lead about holders' records.
    """

    privacy_: Privacy
    schema_: Schema
    run_: RunDocument
    costs_: pl.DataFrame
    federation_: Federation
    last_scoring_: ScoringRecord

    def __init__(
        self,
        *,
        epsilon: float | str | Fraction,
        alert_share: float = 0.002,
        model: str = "evidence",
        noise: str = "distributed",
        honest_holders: int | None = None,
        metered: bool = False,
        seed: int | None = None,
        sets: str = "fine",
        absent: str = "class",
        scoring: str = "decisions",
        bound: int | None = None,
        trees: int | None = None,
        height: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.alert_share = alert_share
        self.model = model
        self.noise = noise
        self.honest_holders = honest_holders
        self.metered = metered
        self.seed = seed
        self.sets = sets
        self.absent = absent
        self.scoring = scoring
        self.bound = bound
        self.trees = trees
        self.height = height

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in signature(type(self)).parameters.items()}
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name] and name != _SECRET
        ]
        return f"Detector({', '.join(shown)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them.

        >>> detector.get_params()["alert_share"]
        0.05
        """
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; they matter at the next `fit`.

        >>> pv4fad.Detector(epsilon=1).set_params(epsilon=2)
        Detector(epsilon=2)
        """
        known = self.get_params()
        if unknown := [name for name in parameters if name not in known]:
            raise ParameterError(f"{unknown[0]}: no such parameter; there are {', '.join(known)}")
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def fit(self, rows: Source, federation: Federation) -> Self:
        """Train on the lead's labelled rows; every holder spends `epsilon`.

        `rows`: a data frame, or the path of a .csv or .parquet file.
        """
        if not isinstance(federation, Federation):
            raise ParameterError(
                "federation: give what pv4fad.simulate or pv4fad.connect returns, as in"
                " fit(rows, federation)"
            )
        try:
            settings = self._settings()
            checked = federation.read_rows(rows, labels_required=True)
            run = federation.train(checked, settings)
        except ParameterError as error:  # the words of the command line
            raise ParameterError(str(error).replace("honest_banks", "honest_holders")) from None
        self._take(run, checked, federation)
        return self

    def detect(self, rows: Source, *, alert_share: float | None = None) -> pl.DataFrame:
        """The alerts among new rows, the highest score first: id, score, level and reasons.

        >>> alerts = detector.detect(new_claims)
        >>> alerts.columns
        ['ClaimId', 'Score', 'Level', 'Reasons']
        >>> detector.last_scoring_.learned.alerts == alerts.height
        True

        `alert_share`: fewer alerts than the detector was fitted for.
        """
        table = self.predict(rows, alert_share=alert_share)
        alert = "Alert" if "Alert" in table.columns else "Label"  # votes of the paper's model
        columns = [table.columns[0], "Score", "Level", "Reasons"]
        return (
            table.filter(pl.col(alert) == 1)
            .sort("Score", descending=True, maintain_order=True)
            .select(name for name in columns if name in table.columns)
        )

    def predict(self, rows: Source, *, alert_share: float | None = None) -> pl.DataFrame:
        """A prediction for each row, in order: what `pv4fad score` writes.

        It is a table, because a prediction is a score, a decision, a level and reasons.

        >>> detector.predict(new_claims).columns
        ['ClaimId', 'Score', 'Alert', 'Level', 'LocalScore', 'Reasons']
        """
        run, federation, share = self.run_, self.federation_, given_share(alert_share)
        checked = federation.read_rows(rows, labels_required=False)
        require_untrained(self.schema_, checked, self._history)
        scored = federation.score(run, self._history, checked, How(share))
        self.last_scoring_ = scored.record
        return scored.table

    def save(self, folder: Path | str, *, key_file: Path | str | None = None) -> None:
        """Write the run into a new folder, as `pv4fad train` does.

        >>> detector.save("run")

        Each party has a store there, sealed with a passphrase: that of `key_file`; by default that
        of PV4FAD_PASSPHRASE or PV4FAD_PASSPHRASE_FILE where one is set, else that of a file beside
        the folder, `run.key` for `run`.  A key file is made if there is none, for its owner only.
        Who has it can open all stores, so keep it elsewhere.  Each store also has its party's own
        table, so that `load` needs nothing else.

        The folder is a copy: what is asked or spent later, there or here, is not known in the
        other.  A deployed federation keeps the run itself: `pv4fad.load(federation)`.
        """
        run, federation = self.run_, self.federation_
        if not isinstance(federation, SimulatedFederation):
            raise ParameterError(
                "a deployed federation keeps its runs itself, each party its own part: there is"
                " nothing to save; get the detector again with pv4fad.load(federation)"
            )
        target = RunFolder(Path(folder))
        target.require_new()
        theirs = federation.stores
        passphrase = given_passphrase(target.path, key_file, new=True)
        tables = {PAYMENT_NETWORK: self._history, **federation.records}
        with target.stores(theirs, passphrase, create=True) as stores:
            for party, store in stores.items():
                copy_run(theirs[party], store, run.run_id)
                if party in tables:
                    rules = federation.rules.get(party)
                    keep_table(store, run.run_id, tables[party], rules)
        target.write(run)  # last: without it there is no run

    # A detector that was loaded has a federation of its own, which ends with its `with` block.

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the federation; one that was made by `simulate` has its own `with` block."""
        self.federation_.close()

    def _settings(self) -> TrainingSettings:
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, Real | str):
            raise ParameterError("epsilon: give a number such as 1, or 'none' for no privacy")
        given = {name: value for name, value in self.get_params().items() if value is not None}
        given["epsilon"] = str(self.epsilon)
        if "honest_holders" in given:
            given["honest_banks"] = given.pop("honest_holders")
        return TrainingSettings(**given)

    def _take(self, run: RunDocument, history: pl.DataFrame, federation: Federation) -> None:
        self.run_, self.federation_, self._history = run, federation, history
        self.privacy_, self.schema_ = run.privacy, run.data_schema
        self.costs_ = pl.DataFrame([cost.model_dump() for cost in run.phases])

    def __getattr__(self, name: str) -> Any:
        if name == "last_scoring_":
            raise NotFittedError(f"{name}: call detect or predict first")
        if name in Detector.__annotations__:
            raise NotFittedError("this Detector is not fitted yet: call fit(rows, federation)")
        raise AttributeError(f"Detector has no attribute {name!r}")


def load(
    folder: Path | str | Federation,
    *,
    rows: Source | None = None,
    holders: Mapping[str, Source] | None = None,
    rules: Mapping[str, RulesLike] | None = None,
    key_file: Path | str | None = None,
    workers: Workers = 0,
) -> Detector:
    """A fitted detector from the folder of a run, made by `Detector.save` or `pv4fad train`.

    >>> with pv4fad.load("run") as loaded:
    ...     loaded.detect(new_claims).equals(alerts)
    True

    The parties are in this process until the `with` block ends; what they learn and spend is kept
    in the folder.  `rows` that the run was trained on, and the tables of its `holders` with their
    own `rules`: by default what `Detector.save` has kept.  `pv4fad train` keeps none.

    Instead of a folder, a federation that `pv4fad.connect` returned: its latest training.
    """
    if isinstance(folder, DeployedFederation):
        run = folder.latest_run()
        return _loaded(run, folder, rows, kept_table(folder.lead_store, run.run_id))
    if isinstance(folder, Federation):
        raise ParameterError("load: give the folder of a run, or what pv4fad.connect returns")
    target = RunFolder(Path(folder))
    run = target.require_finished()
    names, schema = list(run.parameters.banks), run.data_schema
    passphrase = given_passphrase(target.path, key_file, new=False)
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(workers))
        stores = stack.enter_context(target.stores(party_names(names), passphrase))
        kept = {party: kept_table(store, run.run_id) for party, store in stores.items()}
        own = {name: one.rules for name in names if (one := kept[name]) and one.rules}
        own |= given_rules(rules, names)
        tables = {} if holders is None else by_holder("holders", holders, names)
        records = {name: table_of(one) for name in names if (one := kept[name])}
        records |= given_records(schema, tables, own) if tables else {}
        if missing := [name for name in names if name not in records]:
            raise DataError(f"{folder} does not have the table of {missing[0]}: give holders=")
        in_order = {name: records[name] for name in names}
        federation = SimulatedFederation(
            schema,
            in_order,
            rules=own,
            policies={},
            stores=stores,
            pool=pool,
            resources=stack.pop_all(),
        )
    federation.add(run)
    try:
        return _loaded(run, federation, rows, kept[PAYMENT_NETWORK])
    except BaseException:
        federation.close()
        raise


def _loaded(
    run: RunDocument, federation: Federation, rows: Source | None, kept: OwnTable | None
) -> Detector:
    trained = read_training_record(federation.lead_store, run.run_id)
    if rows is not None:
        history = federation.read_rows(rows, labels_required=True)
    elif kept is not None:
        history = table_of(kept)
    else:
        raise DataError("the folder does not have the rows that the run was trained on: give rows=")
    store = federation.lead_store
    as_trained = rows_as_trained(run.data_schema, store, run.run_id, history, trained.transactions)
    if as_trained is None:
        raise DataError("the rows are not those that the run was trained on")
    parameters = trained.settings.model_dump(exclude_defaults=True)
    honest = parameters.pop("honest_banks", None)
    detector = Detector(**parameters, honest_holders=honest)
    detector._take(run, as_trained, federation)
    return detector
