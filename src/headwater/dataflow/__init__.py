"""Dataflow: stages written by hand around the views, with state of their own, in one graph and one log."""
