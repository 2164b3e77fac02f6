"""What runs every protocol: the strategy, its exchange with clients, its store, its result."""
