"""Words of many languages: terms, other forms, spelling, dates. It judges no meaning."""
