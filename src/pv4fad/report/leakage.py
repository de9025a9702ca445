"""Who learns what: by party, and by kind of message (docs/protocol.md §8 and §9)."""

from __future__ import annotations

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
    "blinded-sums": NOTHING_UNIFORM,
    "encrypted-digits": NOTHING_CLOSED,
    "shared-labels": NOTHING_UNIFORM,
    "label-masks": NOTHING_UNIFORM,
    "tables-in-force": "when accounts were matched anew",
    "blinded-set-shares": NOTHING_UNIFORM,
    "set-shares-opened": "that a message was handled",
    "label-request": "which part comes next",
    "encrypted-labels": NOTHING_CLOSED,
    "score-query": "the padded number of layers; otherwise uniform values",
    "score-reply": "one vote total per side of a scored transaction",
}
"""By kind: what its receiver learns from it."""

RELEASED_LABELS = "the noisy labels of the red leaves (released model)"

PARTIES: tuple[tuple[str, str, str], ...] = (
    (
        "payment network",
        "for each transaction it scores, one vote total per side; over many votes, the noisy"
        " labels",
        "flags, which accounts a bank has, counts, anything about an account it does not score",
    ),
    (
        "bank",
        "public sizes: padded tables, numbers of trees, sums, leaves, scoring layers",
        "transactions, labels, trees, which account a message is about, other banks' data",
    ),
    ("aggregator", "public sizes", "everything else: it opens nothing"),
)
"""Party, what it learns beyond its own data, what it does not."""

TOGETHER: tuple[tuple[str, str], ...] = (
    ("all banks and the aggregator", "public sizes; nothing about the payment network"),
    (
        "payment network and aggregator",
        "the noisy sums over all banks; with one bank only, those of that bank",
    ),
    (
        "payment network and some banks",
        "those banks' data; ε holds for the others as long as enough banks keep their noise",
    ),
)
"""Who colludes, and what they learn."""

ASSUMPTIONS: tuple[str, ...] = (
    "Every party follows the protocol, and may keep and analyse all it sees (honest but curious)."
    " A payment network that deviates can read flags through scoring.",
    "Channels between the parties are authenticated and encrypted.",
    "The payment network applies the contribution bound; no bank can check it.",
    "The operating system's random numbers, the encryption library and its 128-bit parameters"
    " are sound.",
    "Time, memory and power of a computation are not observed by others.",
)
"""What the claim rests on, apart from how the noise is made (docs/threat-model.md)."""
