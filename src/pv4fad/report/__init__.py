"""A run as a page that people can read: figures, alerts, costs, what is private and what is not."""
