"""The sites of EP that a particle at the centre of the priors has."""

import numpy as np

from seqgp.runtime import engine
from seqgp.samplers.online import exact
from seqgp.statespace.filter_history import observed_history
from seqgp.statespace.site_filter import GaussianSites


def sites_at_centre(shared):
    """Of a model without inferred parameters."""

    def refined(filter, observations, length, sites, first):
        history, log_prob = observed_history(filter, filter.matrices(np.zeros(0)), observations, length)
        return exact.refined_sites(history, log_prob, sites, True, length, first)

    return GaussianSites(*(np.asarray(part) for part in engine.compiled(refined, *shared)[0]()))
