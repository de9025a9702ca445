"""run.json: what everybody may know about a run, for people and for programs.

Only what is public: parameters, sizes, the privacy claim in words, bounds, costs, and a commitment
to what was counted.  Not in it: seeds, counts, trees, true numbers of accounts or transactions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import numpy as np
from pydantic import ConfigDict, ValidationError

from pv4fad import __version__
from pv4fad.errors import ParameterError, StoreError
from pv4fad.he.noise import FAILURE_BITS
from pv4fad.privacy.delta import delta_text
from pv4fad.privacy.effective import effective_epsilon, guessing_bound
from pv4fad.protocol.parameters import LOG2_LOAD, LOG2_WRAP, RunParameters
from pv4fad.run.meter import PhaseCost, Traffic
from pv4fad.schema import Schema
from pv4fad.validated import ValidatedModel, problems_text
from pv4fad.words import Words

VERSION: Literal[5] = 5

SCORING_IS_OUTSIDE = {
    "decisions": "Scoring is outside the ε claim.  About {a_record} that it asks {a_holder} about,"
    " the {lead} learns exactly whether it is of the kinds it asked for, one bit for each kind, at"
    " most once until the next refresh.  About all other {records} its view stays as private as"
    " stated.",
    "votes": "Scoring is outside the ε claim.  For each side of {a_row} that it scores, the {lead}"
    " learns a vote total.  Vote totals tell kinds of {records} apart: after a few scorings it can"
    " know the kind of most {records} that it scored.  --scoring decisions reveals much less.",
}
UNIT = "one {record} at one {holder}, added, removed or changed"


class Privacy(ValidatedModel):
    """ε and exactly what it means."""

    epsilon: str
    sensitivity: int
    unit: str
    noise: str
    honest_banks: int
    effective_epsilon: float | None
    """If only one bank adds its noise and keeps it to itself; None: there is no noise."""
    guessing_bound: float
    """The largest probability of a right guess about one record, from what training reveals."""
    delta: str
    """Up to which ε holds, for the records of the bank for which it is largest; rounded up."""
    claim: str
    outside_the_claim: str

    def __str__(self) -> str:
        return f"ε = {self.epsilon}, δ = {self.delta}. {self.claim}\n{self.outside_the_claim}"


class CircuitSummary(ValidatedModel):
    """The static bound of one circuit of ciphertexts."""

    log2_noise: float
    log2_flood: float
    log2_distance: float
    log2_distance_deviating: float
    """The same, whatever keys and ciphertexts the key holder supplied."""
    ciphertexts: int
    """How many are sanitised in training."""


class Bounds(ValidatedModel):
    """What can go wrong by chance, as log2 of upper bounds on the probability or distance."""

    log2_distance: float
    """Statistical distance of everything sanitised in training from uniform."""
    log2_false_match: float
    log2_wrap: float
    """A noisy sum leaves the range of the plaintext modulus."""
    log2_placement_failure: float
    """The accounts of some table do not fit its bins; the run aborts."""
    log2_too_full_bin: float
    """A bin of a bank holds more accounts than planned for; the run aborts."""
    log2_decryption_failure: float
    circuits: dict[str, CircuitSummary]


class Sizes(ValidatedModel):
    """The public sizes that follow from the parameters."""

    banks: int
    trees: int
    groups: int
    sums: int
    red_leaves: int | None
    """Of the paper's model."""
    plain_modulus: int
    largest_sum: int
    blocks: dict[str, int]
    """Blocks of 16384 bins of each table."""


class RunDocument(ValidatedModel):
    """The content of run.json."""

    format: Literal["pv4fad run"] = "pv4fad run"
    version: Literal[5] = VERSION
    program: str = __version__
    state: Literal["unfinished", "finished"]
    run_id: str
    begun: datetime
    finished: datetime | None = None
    data_schema: Schema
    """What rows, sides and classes are."""
    parameters: RunParameters
    sizes: Sizes
    privacy: Privacy
    bounds: Bounds
    phases: tuple[PhaseCost, ...] = ()
    traffic: tuple[Traffic, ...] = ()

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    @classmethod
    def of_new_run(cls, parameters: RunParameters, schema: Schema, begun: datetime) -> RunDocument:
        """Before the first message."""
        return cls(
            state="unfinished",
            run_id=parameters.run_id,
            begun=begun,
            data_schema=schema,
            parameters=parameters,
            sizes=_sizes(parameters),
            privacy=_privacy(parameters, schema.words),
            bounds=_bounds(parameters),
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> RunDocument:
        """A document as it was written; StoreError if it is damaged or of another version."""
        try:
            return cls.model_validate_json(text)
        except (ValidationError, ParameterError) as error:
            problem = problems_text(error) if isinstance(error, ValidationError) else str(error)
            raise StoreError(
                f"{where} is damaged, or of another version than {VERSION}: {problem}"
            ) from None

    def to_json(self) -> str:
        return self.model_dump_json(indent=2) + "\n"


def _sizes(parameters: RunParameters) -> Sizes:
    sizes = parameters.sizes
    return Sizes(
        banks=len(parameters.banks),
        trees=sizes.n_trees,
        groups=sizes.n_groups,
        sums=sizes.n_sums,
        red_leaves=None if parameters.mode == "counts" else sizes.n_leaves,
        plain_modulus=parameters.plain_modulus,
        largest_sum=parameters.largest_sum,
        blocks={plan.table_id: plan.layout.n_blocks for plan in parameters.tables},
    )


def _privacy(parameters: RunParameters, words: Words) -> Privacy:
    scoring = "votes" if parameters.mode == "sealed" else "decisions"
    return Privacy(
        epsilon=parameters.epsilon,
        sensitivity=parameters.sensitivity,
        unit=words(UNIT),
        noise=parameters.noise,
        honest_banks=parameters.honest_banks,
        effective_epsilon=_effective_epsilon(parameters),
        guessing_bound=guessing_bound(parameters.exact_epsilon),
        delta=delta_text(parameters.delta),
        claim=_claim(parameters, words),
        outside_the_claim=words(SCORING_IS_OUTSIDE[scoring]),
    )


def _effective_epsilon(parameters: RunParameters) -> float | None:
    epsilon = parameters.exact_epsilon
    if isinstance(epsilon, str):
        return None
    honest = parameters.honest_banks if parameters.noise == "distributed" else 1
    return effective_epsilon(epsilon, parameters.sensitivity, honest)


def _claim(parameters: RunParameters, words: Words) -> str:
    epsilon, delta = parameters.epsilon, parameters.sensitivity
    if epsilon == "none":
        return words(
            "None: there is no noise, and exact counts can reveal any single {record}."
            "  For tests and demonstrations only."
        )
    noise = {
        "per-bank": "Every {holder} adds all of the noise, so it holds whatever the others do.",
        "distributed": f"ε holds if at least {parameters.honest_banks} of the"
        f" {len(parameters.banks)} {{holders}} add their noise and do not work with the {{lead}};"
        f" if only one does, ε is {_effective_epsilon(parameters):.1f} for its {{records}}.",
    }[parameters.noise]
    what = "the noisy counts" if parameters.mode == "counts" else "the labels of the forest"
    return words(
        f"What training reveals, {what}, is {epsilon}-differentially private, all of it together,"
        f" whatever the {{lead}} knew before.  Unit: {UNIT}.  That moves all sums together by at"
        f" most Δ = {delta}, and every sum carries discrete Laplace noise with"
        f" α = exp(−{epsilon}/{delta}).  {noise}  Who was undecided about {{a_record}} before"
        " guesses right with a probability of at most"
        f" {guessing_bound(parameters.exact_epsilon):.2f}."
        "  The claim is computational (it needs the encryption), and holds up to"
        f" δ = {delta_text(parameters.delta)} for the {{records}} of one {{holder}}: the"
        " statistical distance of sanitised ciphertexts from uniform"
        f" (2^{parameters.log2_distance:.1f} for all of the run), and the probability that two"
        f" {{records}} are taken for one (2^{parameters.log2_false_match:.1f}).  Runs add up, for δ"
        " also matches and scorings; the ledger of {a_holder} counts those of the folder it is in."
    )


def _bounds(parameters: RunParameters) -> Bounds:
    n_sanitised = parameters.n_sanitised
    failures = [plan.layout.log2_failure() for plan in parameters.tables]
    return Bounds(
        log2_distance=parameters.log2_distance,
        log2_false_match=parameters.log2_false_match,
        log2_wrap=LOG2_WRAP,
        log2_placement_failure=float(np.logaddexp2.reduce(failures)),
        log2_too_full_bin=LOG2_LOAD,
        log2_decryption_failure=-FAILURE_BITS,
        circuits={
            name: CircuitSummary(
                log2_noise=bound.noise_bits,
                log2_flood=bound.flood.range_bits,
                log2_distance=-bound.distance_bits,
                log2_distance_deviating=-bound.deviating_bits,
                ciphertexts=n_sanitised[name],
            )
            for name, bound in parameters.bounds.items()
            if name in n_sanitised
        },
    )
