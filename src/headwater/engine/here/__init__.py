"""Statements, merges and answers over Arrow tables, in this process or in a task."""
