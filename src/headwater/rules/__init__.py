"""Calculus to calculus: one function for each law, rules in tuples that read in order."""
