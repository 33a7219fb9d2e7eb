"""The check: the query computed anew, and the answers compared."""
