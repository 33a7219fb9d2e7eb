"""Benchmarks: each part measures one layer, compares its answers first, and reports figures and targets."""
