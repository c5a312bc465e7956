"""Recording objects: they stand where moderngl's C objects stand, and record what is called on them."""
