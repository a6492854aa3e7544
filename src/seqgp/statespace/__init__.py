"""State-space models of latent Gaussian processes, for one value of the parameters; README.md says what is where."""
