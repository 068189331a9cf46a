"""kagent_memory as a native part of ADK. Only this room imports google.*."""
