"""Calculus to calculus: one function a law, rules in tuples that read in order."""
