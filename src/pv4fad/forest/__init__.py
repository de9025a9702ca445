"""The forest of random decision trees, its counts, and the trusted third party as its oracle."""
