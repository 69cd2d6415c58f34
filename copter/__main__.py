"""Entry point of the command `copter`, also `python -m copter`.

Without the extra [cli], the command prints one line that says how to install it.
"""

from __future__ import annotations

import sys

from copter.errors import MissingExtraError
from copter.extras import extra


def main() -> None:
    """Run the command line; if its packages are missing, print one line and exit with status 1."""
    try:
        with extra("cli"):
            from copter.cli.main import main as run
    except MissingExtraError as error:
        sys.exit(f"copter: {error}")
    run()


if __name__ == "__main__":
    main()
