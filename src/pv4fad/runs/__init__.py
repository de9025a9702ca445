"""From data to a trained run in a folder, and its verification."""
