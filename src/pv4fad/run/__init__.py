"""A run as it is kept in a folder: its document, costs, predictions."""
