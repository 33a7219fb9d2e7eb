"""SQL text and Python comprehensions, read into terms of the calculus."""
