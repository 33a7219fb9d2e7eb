"""Terms into a program: the maps that are kept, the statements that change them, the answers over them."""
