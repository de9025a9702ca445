"""What ε-private counts are worth: from noisy counts to log-odds, to questions, to alerts."""
