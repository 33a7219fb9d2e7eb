"""The same on Spark: the session, rounds of tasks, heavy keys."""
