"""A strict stand-in for the part of verifiers 0.4 that a taskset's host uses: it knows no other name and argument."""

__version__ = "0.4.0+stub"
