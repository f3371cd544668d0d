"""`python -m training.engine.models.fetching [--config] HUB_ID`: fetches a model from its hub, or finds it in the hub's
cache; with --config its config.json alone.

Prints one JSON object: `folder`, and `revision`, the commit that the files are of. HF_TOKEN, HF_HOME and HF_HUB_OFFLINE
hold as for every program of Hugging Face. Exit code 1 with the reason on standard error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from training.engine.spec.base_files import BASE_FILES

CONFIG = "config.json"


def main() -> int:
    *options, name = sys.argv[1:]
    patterns = [CONFIG] if options == ["--config"] else list(BASE_FILES)
    try:
        folder = Path(snapshot_download(name, allow_patterns=patterns))
        if options and not (folder / CONFIG).is_file():
            raise FileNotFoundError(f"it has no {CONFIG}")
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        sys.stderr.write(f"{name} cannot be fetched: {str(error).splitlines()[0]}\n")
        return 1
    sys.stdout.write(json.dumps({"folder": str(folder), "revision": folder.name}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
