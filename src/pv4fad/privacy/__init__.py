"""Differential privacy: exact noise, the contribution bound, the ledger of each bank."""
