"""Check a finished run against a trusted third party."""
