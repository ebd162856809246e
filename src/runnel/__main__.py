"""`python -m runnel` is the program `runnel`."""

import sys

from runnel.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
