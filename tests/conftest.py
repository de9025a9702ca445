"""Settings of the whole suite."""

from hypothesis import settings

# No test is timed: a busy machine must not make one fail.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
