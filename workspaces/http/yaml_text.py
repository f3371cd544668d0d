"""YAML that people edit: read with limits, written in the order given; and as a format of the API.

What is read is what JSON can hold: an alias could grow a short text without end, and of a name that stands twice one
value would be lost, so both are refused. Numbers are those of YAML 1.2 (1e-3 too).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from workspaces.errors import InvalidInput, TooLarge
from workspaces.http.parsing import check_body, read_body
from workspaces.storage.storable import MAX_DEPTH

MEDIA = "application/yaml"
MOST_BYTES = 64 * 1024
"""PyYAML reads about 100 KB in a second."""
WIDTH = 120


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=self.peek_event().start_mark)
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:  # PyYAML's time grows with the square of it
            deeper = f"it is nested deeper than {MAX_DEPTH} levels"
            raise yaml.MarkedYAMLError(problem=deeper, problem_mark=self.peek_event().start_mark)
        composed = super().compose_node(parent, index)
        self.depth -= 1
        return composed

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = set()
        for key, _ in node.value:
            if key.value in names if isinstance(key, yaml.ScalarNode) else True:
                reason = f"{key.value} appears twice" if isinstance(key, yaml.ScalarNode) else "this is not a name"
                raise yaml.MarkedYAMLError(problem=reason, problem_mark=key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def read_yaml(text: str | bytes) -> Any:
    """Raises InvalidInput with the line of what is wrong, and TooLarge."""
    size = len(text.encode(errors="replace") if isinstance(text, str) else text)
    if size > MOST_BYTES:
        raise TooLarge(f"The YAML has {size} bytes; at most {MOST_BYTES} are allowed.")
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
        encoded = msgspec.json.encode(found)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise InvalidInput(f"The text is not valid YAML: {place}{error.problem}.") from error
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"The text is not valid YAML: {str(error)[:200]}.") from error
    check_body(encoded)
    return msgspec.json.decode(encoded)


def write_yaml(value: Any) -> str:
    """Of anything that JSON can hold."""
    plain = msgspec.json.decode(msgspec.json.encode(value))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=WIDTH)


class YamlParser(BaseParser):
    media_type = MEDIA

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return read_yaml(read_body(stream, limit=MOST_BYTES, context=parser_context))


class YamlRenderer(BaseRenderer):
    media_type = MEDIA
    format = "yaml"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else write_yaml(data).encode()
