"""Many runs, on an existing engine: one after the other, or on the workers of a Dask cluster."""
