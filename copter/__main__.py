"""The script `copter`, also `python -m copter`: without the extra [cli] it says in one line how to get it."""

from __future__ import annotations

import sys

from copter.extras import MissingExtraError, extra


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
