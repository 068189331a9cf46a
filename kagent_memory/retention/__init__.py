"""The life of memories: their expiry, the deliveries that count, and the prune."""
