"""Entry point of the command `copter`, also `python -m copter`.

Without the extra [cli] it prints one line that says how to install the extra.
"""

from __future__ import annotations

import sys

from copter.errors import MissingExtraError
from copter.extras import extra


def main() -> None:
    """Run the command line; exit with 1 and one line if its packages are not installed."""
    try:
        with extra("cli"):
            from copter.cli.main import main as run
    except MissingExtraError as error:
        sys.exit(f"copter: {error}")
    run()


if __name__ == "__main__":
    main()
