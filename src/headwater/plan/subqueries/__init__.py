"""Subqueries and outer, semi and anti joins as joins with answers."""
