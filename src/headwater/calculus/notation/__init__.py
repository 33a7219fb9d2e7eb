"""The notation of the calculus, both ways: terms and types as text."""
