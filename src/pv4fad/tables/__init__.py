"""Files and data frames as typed, checked tables; knows nothing of payments."""
