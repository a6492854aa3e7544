"""XLA's notices about slow compilation do not reach users, unless they ask for them."""

import os
import subprocess
import sys

import pytest

READ = "import seqgp, os, sys; assert 'jax' not in sys.modules; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"


@pytest.mark.parametrize(("given", "expected"), [(None, "3"), ("0", "0")])
def test_the_log_level_is_set_before_jax_is_imported(given, expected):
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {} if given is None else {"TF_CPP_MIN_LOG_LEVEL": given}
    printed = subprocess.run([sys.executable, "-c", READ], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == expected
