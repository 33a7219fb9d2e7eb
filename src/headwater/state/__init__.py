"""Maps on disk: sorted immutable runs, versions, and a commit log; it knows neither queries nor Spark."""
