"""What a party keeps, sealed on disk or in memory."""
