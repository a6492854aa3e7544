"""What is particular to sequences: state, carry, initial sample, step, and the loop over snapshots."""
