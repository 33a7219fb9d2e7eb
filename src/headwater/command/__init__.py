"""The command line, and the stories that it tells."""
