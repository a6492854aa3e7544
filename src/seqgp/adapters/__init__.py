"""The online sampler behind the interfaces of other libraries, which are imported only here."""
