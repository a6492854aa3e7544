"""Ready-made models on top of the public names of the library."""
