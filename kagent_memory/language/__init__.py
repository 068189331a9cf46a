"""Words of many languages, each list once: plain data."""
