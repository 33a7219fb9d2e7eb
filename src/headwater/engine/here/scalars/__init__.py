"""Scalars of Spark as functions of Arrow columns, exact or not at all."""
