"""Long-term memory for Google ADK agents."""
