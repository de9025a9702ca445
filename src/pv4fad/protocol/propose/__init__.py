"""Propose: parameters and keys, before anything is matched (protocol.md §8.0).

    PaymentNetwork  places its accounts, makes a key pair
      1.  sends the parameters and its public keys                                  → all
    Bank            checks the parameters, its policy, its limits and its number of accounts
      2.  sends a public key for shares, and its signed X25519 key                  → PaymentNetwork
    Aggregator
      2.  sends a receipt                                                           → PaymentNetwork
    PaymentNetwork
      3.  sends the signed X25519 keys of all banks                                 → Bank
    Bank
      4.  checks every signature against the keys it knows; sends a receipt         → PaymentNetwork

Everybody learns the public sizes and who takes part.  A match after training begins with 1 and 2
as well; the aggregator and the roster are known by then.
"""
