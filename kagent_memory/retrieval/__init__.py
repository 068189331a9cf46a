"""From a query to ranked memories: gate, completion, rewriting, search and ranking."""
