"""The top floor: settings, URLs, the pages that need every floor, the demo, and the instance that `make run` starts."""
