"""From model, representation, carry and data to the one target of a step."""
