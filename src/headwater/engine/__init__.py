"""Runs a program: on Arrow tables in this process, and on Spark."""
