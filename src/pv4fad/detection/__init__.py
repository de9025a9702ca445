"""Detection at the payment network: the local model, and what it makes of the votes."""
