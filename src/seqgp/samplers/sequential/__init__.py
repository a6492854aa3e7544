"""The paper's algorithm: state, initial sample, step."""
