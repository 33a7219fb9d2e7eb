"""One table of types, and constants, between the calculus, Arrow and Spark."""
