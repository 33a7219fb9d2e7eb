"""Nested data as flat terms: opening bags, shredding them into parts by label, sources whose arrays have owners."""
