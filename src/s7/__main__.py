"""`python -m s7`, the same as the command `s7`."""

import sys

from s7.cli.main import main

sys.exit(main())
