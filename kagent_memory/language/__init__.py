"""Text in many languages: terms, inflected forms, spelling and dates, without judging meaning."""
