"""Runs what the compiler made: on Arrow tables in this process, and on Spark."""
