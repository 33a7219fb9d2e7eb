"""What a query means: types, terms, their text, and the reference interpreter."""
