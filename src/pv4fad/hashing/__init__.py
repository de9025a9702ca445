"""How accounts become bins and tags: keyed hashing, cuckoo tables, constant-weight codewords."""
