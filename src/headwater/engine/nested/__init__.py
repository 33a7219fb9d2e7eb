"""Nested rows and documents from their flat parts."""
