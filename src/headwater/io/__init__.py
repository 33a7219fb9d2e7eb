"""Rows that are given, as changes of relations: converted, checked, and brought in."""
