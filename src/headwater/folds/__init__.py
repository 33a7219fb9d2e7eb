"""Folds: how pipelines over partially ordered streams run: which rows are ready, in what order, and what they give."""
