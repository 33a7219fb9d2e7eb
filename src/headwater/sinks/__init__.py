"""Sinks: answers where others read them. Each follows one view, and its target says which version it has."""
