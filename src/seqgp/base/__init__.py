"""What everything stands on: errors, validation, priors, snapshots, and the identity of a model's parts."""
