"""One stream of stations, the same model and priors, in seqgp and in what others offer.

``make peers`` builds an environment of the peers in build/peers and runs ``python -m benchmarks.stream_peers``. Each
peer is a script of its own that needs no seqgp: ``python SCRIPT data.npz`` prints one line of JSON.
"""
