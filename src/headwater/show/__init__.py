"""A view, a program or a table of rows, shown: text, drawings, the terminal."""
