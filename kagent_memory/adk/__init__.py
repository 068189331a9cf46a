"""The only room that imports google.*: kagent_memory as a native part of ADK."""
