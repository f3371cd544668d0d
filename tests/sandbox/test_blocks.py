"""The fenced blocks of a text: found, run and parsed."""

from __future__ import annotations

import pytest

from sandbox.blocks import Failure, find_blocks, find_syntax_error, parse_blocks, run_blocks

TEXT = """\
First this, `python inline`:

```python
x = 1
print(x)
```

- in a list:
  ~~~~ bash title="two"
  ls no-such-file
  echo on
  ~~~~
> ```sh
> echo quoted
> ```

```js
not run()
```

```
nor this
```

```py
print(x
```

```{.python}
print(x)
```

```python
raise SystemExit(3)
"""


def test_blocks_are_found_in_lists_and_quotes_with_their_lines() -> None:
    found = [(block.language, block.line, block.code.splitlines()[0]) for block in find_blocks(TEXT)]
    assert found == [
        ("python", 4, "x = 1"),
        ("shell", 10, "ls no-such-file"),
        ("shell", 14, "echo quoted"),
        ("python", 26, "print(x"),
        ("python", 30, "print(x)"),
        ("python", 34, "raise SystemExit(3)"),
    ]
    assert find_blocks("no block, ``` neither\n    indented") == []


@pytest.mark.usefixtures("boxes")
def test_each_block_runs_by_itself() -> None:
    ran = run_blocks(TEXT)
    assert (ran.blocks, ran.good, ran.left_out, ran.share) == (6, 2, 0, 2 / 6)
    assert [(failure.line, failure.language) for failure in ran.failures] == [
        (10, "shell"), (26, "python"), (30, "python"), (34, "python"),
    ]  # fmt: skip
    assert ran.failures[2].reason == "ended with exit code 1: NameError: name 'x' is not defined"
    assert run_blocks(TEXT, most=1).left_out == 5
    assert run_blocks("Nothing to run.").share is None


def test_python_blocks_parse_or_say_where_not() -> None:
    parsed = parse_blocks(TEXT)
    assert (parsed.blocks, parsed.good) == (4, 3)
    assert parsed.failures == (Failure(26, "python", "line 1: '(' was never closed"),)


@pytest.mark.parametrize("source", ["-" * 50_000 + "1", "(" * 300, "1+" * 40_000 + "1", "\0", "\ud800", "x" * 100_001])
def test_what_the_parser_cannot_take_is_a_reason_and_no_error(source: str) -> None:
    assert find_syntax_error(source)


def test_style_is_no_syntax_error() -> None:
    assert find_syntax_error('x = "\\d"; assert (x, "always true")') is None
