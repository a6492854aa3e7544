"""What a sampler is to everything around it: states, infos, the loop over snapshots."""
