"""How accounts become bins and tags: keyed hashing, cuckoo tables, polynomials of bins."""
