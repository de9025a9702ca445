"""Who learns what: by party, and by kind of message (docs/understand/protocol.md §8 and §9).

The sentences have places for the words of a schema (`pv4fad.words`).
"""

from __future__ import annotations

from pv4fad.protocol.parameters import Mode

NOTHING_UNIFORM = "nothing: uniform values"
NOTHING_CLOSED = "nothing: it cannot open them"

LEARNS: dict[str, str] = {
    "run-proposal": "public sizes and keys",
    "bank-keys": "public keys",
    "roster": "public keys of the other {holders}",
    "receipt": "that a message was handled",
    "encrypted-table": "the padded size; it cannot open the {records} in it",
    "masked-values": NOTHING_UNIFORM,
    "value-digits": NOTHING_CLOSED,
    "masked-distances": NOTHING_UNIFORM,
    "remainder-bits": NOTHING_CLOSED,
    "masked-differences": NOTHING_UNIFORM,
    "indicator-planes": NOTHING_CLOSED,
    "blinded-indicators": NOTHING_UNIFORM,
    "masked-products": NOTHING_UNIFORM,
    "noisy-sums": NOTHING_UNIFORM,
    "noisy-counts": "with its own shares, the noisy counts",
    "blinded-sums": NOTHING_UNIFORM,
    "encrypted-digits": NOTHING_CLOSED,
    "shared-labels": NOTHING_UNIFORM,
    "label-masks": NOTHING_UNIFORM,
    "tables-in-force": "which matches are in force",
    "blinded-set-shares": NOTHING_UNIFORM,
    "set-shares-opened": "that a message was handled",
    "label-request": "which part comes next",
    "encrypted-labels": NOTHING_CLOSED,
    "score-query": "that a round of questions takes place; otherwise uniform values",
    "score-reply": "one bit about each {record} that it asked about, nothing about the others",
    "own-part": "metered: with the other part, how many bits are positive, not whose",
    "metered-reply": "metered: with the other part, how many bits are positive, not whose",
    "metering-stopped": "metered: that answers of a {holder} are stopped, and why",
    "live-query": "that a tick has passed; otherwise uniform values",
    "live-reply": "one bit about each {record} that it asked about, nothing about the others",
    "live-refusal": "why there is no reply",
    "notify": "reference, {record} and level of an alert, disclosed on purpose",
}
"""By kind: what its receiver learns from it."""

LAYERS = "the padded number of layers; otherwise uniform values"
RELEASED_LABELS = "the noisy labels of the red leaves (released model)"
VOTE_TOTAL = "one vote total per side of a scored {row}, which tells kinds of {records} apart"

_NETWORK: dict[Mode, tuple[str, str]] = {
    "counts": (
        "noisy counts of {records}; about each {record} that it asks about, one bit for every set"
        " of classes it asks for; so which of its {rows} become alerts",
        "exact counts; anything else about classes, or about which {records} {a_holder} has",
    ),
    "released": (
        "the noisy labels of leaves; about each {record} that it asks about, one bit for every set"
        " of classes it asks for; so which of its {rows} get a majority",
        "counts; anything else about classes, or about which {records} {a_holder} has",
    ),
    "sealed": (
        "for each {row} that it scores, one vote total per side; vote totals tell kinds of"
        " {records} apart, so it can know the kind of most {records} that it scores; over many"
        " votes, the noisy labels",
        "counts; anything but ε-private labels about {a_record} that it does not score",
    ),
}


def parties(mode: Mode, *, metered: bool) -> tuple[tuple[str, str, str], ...]:
    """Party, what it learns beyond its own data, what it does not."""
    aggregator = ("public sizes", "everything else: it opens nothing")
    if metered:
        aggregator = (
            "public sizes; of each round of questions, how many answers of each {holder} are"
            " positive",
            "which {records} they are about; everything else",
        )
    return (
        ("{lead}", *_NETWORK[mode]),
        (
            "{holder}",
            "public sizes: padded tables, numbers of sums; that a scoring took place, and the"
            " padded size of its rounds",
            "{rows}, labels, models, alerts, which {record} a message is about, data of other"
            " {holders}",
        ),
        ("aggregator", *aggregator),
    )


def together(*, metered: bool) -> tuple[tuple[str, str], ...]:
    """Who colludes, and what they learn."""
    if not metered:
        return (("all {holders} and the aggregator", _NOTHING_OF_LEAD), *_TOGETHER)
    return (
        ("all {holders}", _NOTHING_OF_LEAD),
        (
            "{a_holder} and the aggregator",
            "which {records} of that {holder} the {lead} asked about with a positive answer, and in"
            " which round; nothing about its other questions, {rows} and labels",
        ),
        *_TOGETHER,
        (
            "{lead} and aggregator, against the limits",
            "whatever {a_lead} that deviates can ask: the limits on answers do not bind the two",
        ),
    )


_NOTHING_OF_LEAD = "public sizes; nothing about the {lead}"
_TOGETHER: tuple[tuple[str, str], ...] = (
    (
        "{lead} and aggregator",
        "the noisy sums over all {holders}, which are the noisy counts; with one {holder} only,"
        " those of that one",
    ),
    (
        "{lead} and some {holders}",
        "the data of those {holders}; ε holds for the others as long as enough {holders} keep their"
        " noise",
    ),
)

ASSUMPTIONS: tuple[str, ...] = (
    "Every party follows the protocol, and may keep and analyse all it sees (honest but curious)."
    " {A_lead} that deviates can ask about {records}, and sets, that no decision needs.",
    "Channels between the parties are authenticated and encrypted.",
    "The {lead} applies the contribution bound; no {holder} can check it. One that counts with"
    " weights of its choice reads several hundred exact bits about {records} in a training.",
    "The operating system's random numbers, the encryption library and its 128-bit parameters"
    " are sound.",
    "Time, memory and power of a computation are not observed by others.",
)
"""What the claim rests on, apart from how the noise is made (docs/understand/threat-model.md)."""
