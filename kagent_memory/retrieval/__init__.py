"""From a question to ranked memories: gate, completion and rewriting, search, ranking."""
