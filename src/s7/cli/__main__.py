"""`python -m s7.cli`."""

import sys

from s7.cli.main import main

sys.exit(main())
