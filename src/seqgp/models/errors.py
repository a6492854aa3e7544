"""The errors a user meets: each names what, where and the remedy, before anything is compiled."""


class SeqgpError(Exception):
    """The base of all errors raised on purpose."""


class ModelError(SeqgpError, ValueError):
    """A model, prior, kernel or likelihood that cannot be used as given."""


class DataError(SeqgpError, ValueError):
    """A snapshot, input or time that cannot be used as given."""


class SamplerError(SeqgpError, ValueError):
    """Settings of a sampler, or a state, that cannot be used as given."""
