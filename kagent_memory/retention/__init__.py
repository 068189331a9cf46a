"""How long memories live: their expiry, what deliveries count, and which ones go."""
