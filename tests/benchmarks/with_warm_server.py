"""`with_warm_server.py MODULE ARGUMENT…`: a benchmark whose model server starts by fork, too (tools/warm.py)."""

import os
import runpy
import sys
from pathlib import Path

from tools import model_server
from tools.warm import stand_in

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    model_server.SERVER = stand_in(Path(os.environ["RECKONER_VAR"]), "training.engine.server")
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
