#!/usr/bin/env python
"""Django's command line; where the package is installed it is the program `reckoner`."""

from project.__main__ import main

if __name__ == "__main__":
    main()
