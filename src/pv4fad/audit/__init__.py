"""Audit: every message is in a chain that its sender signs, and the receiver confirms.

    sender i                                       receiver j
    number n, head_n = H(head_(n−1), H(salt, message), commitment, id of the message)
    message ‖ stamp(n, head_(n−1), salt, what i has seen of j, i's ledger, signature)
                                        ────────►  checks and keeps the stamp; its next message to i
                                                   says: seen n, head_n, and which of the 64
                                                   messages up to n have arrived

Each party keeps its own log (`notary`), and can hand it out without a secret in it (`log_file`).
`verify` compares the logs of several parties: what one of them changed, left out, signed twice or
put back does not fit to what the others hold under its signature.

`stamp` is what is added to a message, `notary` adds and checks it.
"""
