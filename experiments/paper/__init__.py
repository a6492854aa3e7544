"""Everything that the paper shows, by one command: ``python -m experiments.paper`` (``make paper``)."""
