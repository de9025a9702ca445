"""Account identities, keyed hashing, cuckoo tables and constant-weight codewords."""
