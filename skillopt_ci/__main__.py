"""Lets ``python -m skillopt_ci`` do what ``skillopt-ci`` does."""

import sys

from skillopt_ci.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
