"""Linear algebra that is safe under vmap and in threads."""
