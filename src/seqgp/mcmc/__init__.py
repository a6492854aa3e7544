"""Updates that know no time: they see one target, ``z ~ N``, ``nu ~ N``, ``f = place(z)(nu)``, and a likelihood."""
