"""What streams mean: operators over streams that are cut into slices, as a reference to compare with."""
