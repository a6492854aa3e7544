"""Random programs against the oracles: ``python -m tests.fuzz --cases 1000 --seed 0``.

A *shape* is a model's structure with the sizes of its data; it is compiled once. A *case* fills it with parameters,
data, a way to run it and questions. The verdict of a case is: equal to the oracle within a stated Monte Carlo error;
refused with a reason that is true; or a finding, shrunk and printed as a program.

- ``shapes``, ``values``, ``data``: what is drawn;
- ``api``: every name of seqgp that the fuzzer uses, as text that is both run and printed;
- ``truth``: the oracle's answers; ``verdicts``: how draws are compared with them; ``refusals``: which are true;
- ``ways``, ``entrances``, ``sameness``: relations that need no oracle (units, permutations, stores, the command line);
- ``cases``: one case from its seed to its verdict; ``shrinking``: findings made small.
"""
