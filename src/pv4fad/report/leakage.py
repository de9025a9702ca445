"""Who learns what: by party, and by kind of message (docs/understand/protocol.md §8 and §9)."""

from __future__ import annotations

from pv4fad.protocol.parameters import Mode

NOTHING_UNIFORM = "nothing: uniform values"
NOTHING_CLOSED = "nothing: it cannot open them"

LEARNS: dict[str, str] = {
    "run-proposal": "public sizes and keys",
    "bank-keys": "public keys",
    "roster": "public keys of the other banks",
    "receipt": "that a message was handled",
    "encrypted-table": "the padded size; it cannot open the accounts in it",
    "blinded-indicators": NOTHING_UNIFORM,
    "masked-products": NOTHING_UNIFORM,
    "noisy-sums": NOTHING_UNIFORM,
    "noisy-counts": "with its own shares, the noisy counts",
    "blinded-sums": NOTHING_UNIFORM,
    "encrypted-digits": NOTHING_CLOSED,
    "shared-labels": NOTHING_UNIFORM,
    "label-masks": NOTHING_UNIFORM,
    "tables-in-force": "when the match was refreshed",
    "blinded-set-shares": NOTHING_UNIFORM,
    "set-shares-opened": "that a message was handled",
    "label-request": "which part comes next",
    "encrypted-labels": NOTHING_CLOSED,
    "score-query": "the padded number of layers; otherwise uniform values",
    "score-reply": "one bit about each account that it asked about, nothing about the others",
}
"""By kind: what its receiver learns from it."""

RELEASED_LABELS = "the noisy labels of the red leaves (released model)"
VOTE_TOTAL = "one vote total per side of a scored transaction, which tells kinds of accounts apart"

_NETWORK: dict[Mode, tuple[str, str]] = {
    "counts": (
        "noisy counts of accounts; about each account that it asks about, one bit for every set of"
        " classes it asks for; so which of its payments become alerts",
        "exact counts; anything else about flags, or about which accounts a bank has",
    ),
    "released": (
        "the noisy labels of leaves; about each account that it asks about, one bit for every set"
        " of flags it asks for; so which of its payments get a majority",
        "counts; anything else about flags, or about which accounts a bank has",
    ),
    "sealed": (
        "for each transaction that it scores, one vote total per side; vote totals tell kinds of"
        " accounts apart, so it can know the kind of flag of most accounts that it scores; over"
        " many votes, the noisy labels",
        "counts; anything but ε-private labels about an account that it does not score",
    ),
}


def parties(mode: Mode) -> tuple[tuple[str, str, str], ...]:
    """Party, what it learns beyond its own data, what it does not."""
    return (
        ("payment network", *_NETWORK[mode]),
        (
            "bank",
            "public sizes: padded tables, numbers of sums; that a scoring took place, and the"
            " padded size of its rounds",
            "transactions, labels, models, alerts, which account a message is about, other banks'"
            " data",
        ),
        ("aggregator", "public sizes", "everything else: it opens nothing"),
    )


TOGETHER: tuple[tuple[str, str], ...] = (
    ("all banks and the aggregator", "public sizes; nothing about the payment network"),
    (
        "payment network and aggregator",
        "the noisy sums over all banks, which are the noisy counts; with one bank only, those of"
        " that bank",
    ),
    (
        "payment network and some banks",
        "those banks' data; ε holds for the others as long as enough banks keep their noise",
    ),
)
"""Who colludes, and what they learn."""

ASSUMPTIONS: tuple[str, ...] = (
    "Every party follows the protocol, and may keep and analyse all it sees (honest but curious)."
    " A payment network that deviates can ask about accounts, and sets, that no decision needs.",
    "Channels between the parties are authenticated and encrypted.",
    "The payment network applies the contribution bound; no bank can check it.",
    "The operating system's random numbers, the encryption library and its 128-bit parameters"
    " are sound.",
    "Time, memory and power of a computation are not observed by others.",
)
"""What the claim rests on, apart from how the noise is made (docs/understand/threat-model.md)."""
