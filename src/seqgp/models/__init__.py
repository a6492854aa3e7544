"""What is believed: kernels, priors, likelihoods, snapshots, and the model that joins them."""
