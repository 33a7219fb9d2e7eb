"""The workload of nested queries, as tests and benchmarks share it."""
