"""Run ``skillopt-ci`` as ``python -m skillopt_ci``."""

import sys

from skillopt_ci.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
