"""All times at once, exactly: the sampler that the sequential ones are compared with."""
