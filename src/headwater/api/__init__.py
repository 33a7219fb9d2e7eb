"""The database as its users have it: declared, changed, read at its versions, and copied outside."""
