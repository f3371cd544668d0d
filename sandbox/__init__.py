"""Runs untrusted Python and shell code behind walls, for every floor and for the engine (docs/adr/0016-sandbox.md).

It lies beneath the floors and imports none of them, neither Django nor torch. `run.run_code` runs one program,
`blocks.run_blocks` the fenced blocks of a text, `programs.check_program` a function against its tests. A program that
fails is a result; a sandbox that fails is an error (`errors`) and never a result.
"""
