"""Where the real inputs lie: traces, topologies and linear programs, which this repository does not hold."""

import os
from pathlib import Path

DATA = Path(os.environ.get("COPTER_DATA", Path(__file__).parents[3] / "shared" / "data"))
