"""Scripts: statements of SQL that declare, change and ask; read here, and carried out by `api/executing`."""
