"""What a device leaves for the cache: weights of a rank, and per engine what else it takes."""
