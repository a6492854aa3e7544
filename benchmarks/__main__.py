"""``python -m benchmarks [names …] [--quick]``."""

from benchmarks.driver import main

# What child processes call must live in a module that they can import: everything is in the driver.
if __name__ == "__main__":
    main()
