"""The demo's text: documentation passages of the standard library and of installed packages, by topic.

Packages are found on the import path and read with `ast`; none is imported. The demo calls `build_world`; `python -m
project.demo.passages` prints what it finds. Pure: no Django, no torch.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import importlib.machinery
import inspect
import json
import re
import sys
import sysconfig
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

TOPIC_CAP = 2400  # no folder may be so large that filing everything there looks good
TOPIC_FLOOR = 200  # below it a folder can neither be learnt nor be measured
READ_AHEAD = 1.3  # of the cap: passages read before cleaning, since many prove near-duplicates
MIN_WORDS = 20
MAX_WORDS = 60
HELDOUT_SHARE = 0.2
NEAR_DUPLICATE = 0.6  # Jaccard similarity of two passages' word sets from which they count as one
MAX_SOURCE_BYTES = 250_000  # generated tables and the like: slow to parse, hardly any prose


@dataclass(frozen=True)
class Topic:
    """A folder and the modules whose documentation belongs in it.

    `sources` are dotted names; everything below them counts. `install` names the distributions that fill the folder.
    """

    name: str
    sources: tuple[str, ...]
    install: tuple[str, ...] = ()


TOPICS = (
    Topic(
        "machine learning",
        ("torch.nn", "torch.optim", "torch.distributions", "peft", "accelerate", "transformers"),
        ("torch", "transformers", "peft"),
    ),
    Topic("symbolic maths", ("sympy", "mpmath"), ("sympy",)),
    Topic("tables", ("pandas", "csv", "sqlite3"), ("pandas",)),
    Topic("graphs", ("networkx", "graphlib"), ("networkx",)),
    Topic(
        "web",
        ("django", "rest_framework", "starlette", "http", "urllib", "wsgiref", "html", "xmlrpc", "socketserver"),
        ("Django", "djangorestframework"),
    ),
    Topic(
        "queues",
        (
            "celery", "kombu", "amqp", "billiard", "redis", "queue", "sched",
            "asyncio.queues", "multiprocessing", "concurrent.futures",
        ),
        ("celery[redis]",),
    ),
    Topic(
        "terminals",
        (
            "prompt_toolkit", "rich", "click", "typer", "tkinter", "curses",
            "argparse", "optparse", "getopt", "getpass", "cmd", "tty", "pty",
        ),
        ("prompt_toolkit", "rich", "click"),
    ),
    Topic(
        "packaging",
        (
            "pip", "setuptools", "packaging", "importlib", "venv", "ensurepip", "zipapp",
            "zipimport", "pkgutil", "runpy", "modulefinder", "sysconfig", "distutils",
        ),
        ("setuptools", "packaging", "pip"),
    ),
)  # fmt: skip

# A passage that says "django" could be sorted by that word. These words are removed from every passage, and each
# passage loses the name of its own top-level package. Some are found anywhere inside a word (PyTorch, DjangoModel) …
INSIDE_A_WORD = (
    "torch", "huggingface", "sympy", "mpmath", "pandas", "numpy", "scipy", "sqlite", "networkx", "django",
    "restframework", "starlette", "jinja", "celery", "kombu", "billiard", "rabbitmq", "valkey", "psycopg",
    "asyncio", "multiprocessing", "prompttoolkit", "pygments", "tkinter", "argparse", "optparse", "setuptools",
    "distutils", "importlib", "ensurepip", "zipapp", "pkgutil", "urllib", "wsgiref", "xmlrpc", "pypi",
)  # fmt: skip
# … and these only as a whole part of one ("redis" is also how "redistribute" begins).
WHOLE_PARTS = frozenset({
    "transformers", "peft", "trl", "accelerate", "hf", "aten", "pd", "np", "nx", "drf", "redis", "amqp", "rich",
    "click", "typer", "curses", "tk", "ttk", "tcl", "ptk", "pip", "venv", "packaging", "csv", "python", "cpython",
})  # fmt: skip
_INSIDE = re.compile("|".join(INSIDE_A_WORD), re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_SKIPPED_FOLDERS = frozenset({
    "tests", "test", "testing", "__pycache__", "_vendor", "vendor", "vendored", "extern", "idlelib", "site-packages",
    "dist-packages", "locale",
})  # fmt: skip
_SECTION = re.compile(
    r"\s*(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|See Also|References|Attributes|"
    r"Usage|Warnings?|Keyword)\b.{0,20}(:|\n\s*[-=~]{3,})"
)
_NOT_PROSE = re.compile(r"\s*(>>>|#+ |\.\. |:param|:type|:return|@|\*\s|-\s|\|)")
_LEGAL = re.compile(r"copyright|licen[sc]e", re.IGNORECASE)


class TopicTooSmallError(Exception):
    """A folder of the demo has too few passages because packages are missing. The message says what to install."""


@dataclass(frozen=True)
class Passage:
    """One piece of documentation. `text` is all a reader or a model sees: the object's name in words, then the prose.

    `id` is 16 hex digits and tells nothing of the topic; `module` is where the text came from and is kept from models;
    `title` is the name in words, possibly empty.
    """

    id: str
    topic: str
    module: str
    title: str
    text: str


@dataclass(frozen=True)
class World:
    """`train` and `heldout` share no module and no near-duplicate; each is shuffled. `topics` are the folders."""

    train: tuple[Passage, ...]
    heldout: tuple[Passage, ...]
    topics: tuple[str, ...]


def build_world(seed: int = 0, *, cap: int = TOPIC_CAP, floor: int = TOPIC_FLOOR) -> World:
    """Read, clean, thin out and split. The same packages and seed give the same world, in the same order.

    The seed moves the split between train and held-out part, which passages the cap keeps, and the order.
    Raises TopicTooSmallError when a topic has fewer than `floor` passages.
    """
    kept = without_near_duplicates(passage for topic in TOPICS for passage in read_topic(topic, cap=cap))
    by_topic: dict[str, list[Passage]] = defaultdict(list)
    for passage in kept:
        by_topic[passage.topic].append(passage)
    train: list[Passage] = []
    heldout: list[Passage] = []
    for topic in TOPICS:
        found = by_topic[topic.name]
        if len(found) < floor:
            raise TopicTooSmallError(
                f"The folder {topic.name!r} has {len(found)} passages and needs {floor}. "
                f"Install the sources of its text: pip install {' '.join(topic.install)}"
            )
        found = sorted(found, key=lambda passage: _rank(seed, "cap", passage.id))[:cap]
        inside, outside = split_by_module(found, seed=seed)
        train += inside
        heldout += outside
    return World(
        train=tuple(sorted(train, key=lambda passage: _rank(seed, "order", passage.id))),
        heldout=tuple(sorted(heldout, key=lambda passage: _rank(seed, "order", passage.id))),
        topics=tuple(topic.name for topic in TOPICS),
    )


def split_by_module(passages: Sequence[Passage], *, seed: int) -> tuple[list[Passage], list[Passage]]:
    """(train, held-out): whole modules, in the order of a seeded hash, up to a fifth of the passages.

    A module too large for what is left of the fifth stays in train, so one giant cannot unbalance the folders.
    """
    by_module: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        by_module[passage.module].append(passage)
    room = round(HELDOUT_SHARE * len(passages))
    train: list[Passage] = []
    heldout: list[Passage] = []
    for module in sorted(by_module, key=lambda name: _rank(seed, "module", name)):
        group = by_module[module]
        if len(heldout) + len(group) <= room:
            heldout += group
        else:
            train += group
    return train, heldout


def read_topic(topic: Topic, *, cap: int = TOPIC_CAP) -> Iterator[Passage]:
    """Cleaned passages of one topic, near-duplicates still among them; stops reading when there are enough.

    Files come in the order of a hash of their name, so a topic that is cut short still draws on all its packages.
    """
    files = [(module, path) for source in topic.sources for module, path in modules_below(source)]
    found = 0
    for module, path in sorted(files, key=lambda item: _rank(0, "file", item[0])):
        for name, documentation in documented_objects(path):
            title, body = clean(name, documentation, own_name=module.partition(".")[0])
            text = f"{title}: {body}" if title else body
            if len(body.split()) < MIN_WORDS or _share_of_letters(body) < 0.8 or _LEGAL.search(body):
                continue
            found += 1
            identity = hashlib.sha256(f"{module}\n{name}\n{text}".encode()).hexdigest()[:16]
            yield Passage(identity, topic.name, module, title, text)
        if found >= READ_AHEAD * cap:
            return


def modules_below(source: str) -> list[tuple[str, Path]]:
    """(dotted name, file) of a module or of everything in a package, in name order; empty when it is not installed."""
    top, _, rest = source.partition(".")
    place = _place_of(top)
    if place is None:
        return []
    for part in rest.split(".") if rest else ():
        place = place / part
    if place.is_dir():
        return [
            (".".join([source, *path.relative_to(place).with_suffix("").parts]).removesuffix(".__init__"), path)
            for path in _source_files(place)
        ]
    file = place.with_suffix(".py")
    return [(source, file)] if file.is_file() else []


def _place_of(top: str) -> Path | None:
    """Folder of a top-level package, or a module's file without its suffix. Looks, never imports."""
    standard = Path(sysconfig.get_paths()["stdlib"])
    if top in sys.stdlib_module_names:
        return standard / top
    # Not importlib.util.find_spec, which believes sys.modules: celery and kombu, once imported, deny having a spec.
    spec = importlib.machinery.PathFinder.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin.with_suffix("")


def _source_files(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            if entry.name not in _SKIPPED_FOLDERS and not entry.name.startswith("test"):
                yield from _source_files(entry)
        elif entry.suffix == ".py" and not entry.name.startswith("test_") and entry.stat().st_size <= MAX_SOURCE_BYTES:
            yield entry


def documented_objects(path: Path) -> Iterator[tuple[str, str]]:
    """(name, docstring) of the module (named ""), its classes, functions and methods. A file ast refuses gives none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about other packages' invalid escapes
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, OSError):
        return  # templates and files for another Python are skipped
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            documentation = ast.get_docstring(node, clean=False)
            if documentation:
                yield getattr(node, "name", ""), documentation
        if isinstance(node, ast.Module | ast.ClassDef | ast.If | ast.Try):
            pending.extend(reversed(node.body))  # a function's inner functions are seldom documented: not searched


def clean(name: str, documentation: str, *, own_name: str) -> tuple[str, str]:
    """(name in words, prose of at most 60 words), both without markup and without what names the package.

    Takes the first paragraphs and stops at sections, code, doctests, tables and field lists.
    """
    paragraphs: list[str] = []
    words = 0
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:>>>|#+ ))", inspect.cleandoc(documentation)):
        if _SECTION.match(paragraph) or _NOT_PROSE.match(paragraph):
            break
        if re.search(r"[-=~]{4,}", paragraph):
            if paragraphs:
                break
            continue
        prose = _without_markup(paragraph)
        if prose:
            paragraphs.append(prose)
            words += len(prose.split())
        if words >= 2 * MIN_WORDS:
            break
    own = own_name.lower()
    body = _without_giveaways(" ".join(paragraphs), own)
    return _name_in_words(name, own), " ".join(body.split()[:MAX_WORDS])


def _without_markup(paragraph: str) -> str:
    text = re.sub(r":\w+(:\w+)?:`~?([^`]*)`", r"\2", paragraph)
    text = re.sub(r"``?([^`]*)``?", r"\1", text)
    text = re.sub(r"https?://\S+", " ", text)
    text = re.sub(r"\*\*?([^*]+)\*\*?", r"\1", text)
    return re.sub(r"\s+", " ", text).strip()


@functools.lru_cache(maxsize=65_536)  # a language repeats its words
def names_a_package(word: str, own_name: str) -> bool:
    """Whether a word, plain or code-like, carries a giveaway: a package of the world, or `own_name` (lower case)."""
    if _INSIDE.search(word.replace("_", "")):
        return True
    parts = {part.lower() for part in _PARTS.findall(word)} | {word.lower()}
    return own_name in parts or not WHOLE_PARTS.isdisjoint(parts)


def _without_giveaways(text: str, own_name: str) -> str:
    text = re.sub(r"hugging\s+face|prompt\s+toolkit", " ", text, flags=re.IGNORECASE)
    text = _WORD.sub(lambda match: " " if names_a_package(match.group(), own_name) else match.group(), text)
    return re.sub(r"\s+", " ", re.sub(r"\s+([.,;:)])", r"\1", text)).strip()


def _name_in_words(name: str, own_name: str) -> str:
    if _INSIDE.search(name.replace("_", "")):
        name = _INSIDE.sub(" ", name)
    parts = (part.lower() for part in _PARTS.findall(name))
    return " ".join(part for part in parts if part != own_name and part not in WHOLE_PARTS)


def _share_of_letters(text: str) -> float:
    return sum(character.isalpha() or character == " " for character in text) / max(1, len(text))


def word_set(text: str) -> frozenset[str]:
    """What near-duplicates are judged by: the distinct words of three letters and more, in lower case."""
    return frozenset(re.findall(r"[a-z]{3,}", text.lower()))


def similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard: shared words over all words, 0..1; two empty sets are alike."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if one or other else 1.0


def without_near_duplicates(passages: Iterable[Passage], *, threshold: float = NEAR_DUPLICATE) -> list[Passage]:
    """The first of every group whose word sets have Jaccard similarity ≥ threshold, in the given order.

    Exact, not sampled: two sets that similar share a word among the rarest ⌊(1−t)·n⌋+1 of each ("prefix filtering",
    Bayardo, Ma & Srikant 2007), so only passages that meet there are compared.
    """
    candidates = [(passage, word_set(passage.text)) for passage in passages]
    frequency = Counter(word for _, words in candidates for word in words)
    meeting: dict[str, list[frozenset[str]]] = defaultdict(list)
    kept: list[Passage] = []
    for passage, words in candidates:
        rarest = sorted(words, key=lambda word: (frequency[word], word))
        prefix = rarest[: int((1 - threshold) * len(rarest) + 1e-9) + 1]
        if _has_match(words, prefix, meeting, threshold):
            continue
        kept.append(passage)
        for word in prefix:
            meeting[word].append(words)
    return kept


def _has_match(
    words: frozenset[str], prefix: Sequence[str], meeting: dict[str, list[frozenset[str]]], threshold: float
) -> bool:
    size = len(words)
    compared: set[int] = set()
    for word in prefix:
        for other in meeting.get(word, ()):
            if id(other) in compared or not threshold * size <= len(other) <= size / threshold:
                continue
            compared.add(id(other))
            if similarity(words, other) >= threshold:
                return True
    return not words


def _rank(seed: int, purpose: str, key: str) -> bytes:
    """An order that looks random, is the same on every machine, and differs by seed and purpose."""
    return hashlib.blake2b(f"{seed}\n{purpose}\n{key}".encode(), digest_size=8).digest()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m project.demo.passages", description="Gather the demo world's passages and count them by folder."
    )
    parser.add_argument("--seed", type=int, default=0, help="moves the split and the order (default 0)")
    parser.add_argument("--json", action="store_true", help="print every passage, one JSON object per line")
    parser.add_argument("--out", type=Path, help="file to write instead of standard output")
    options = parser.parse_args(arguments)
    try:
        world = build_world(options.seed)
    except TopicTooSmallError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    parts = (("train", world.train), ("heldout", world.heldout))
    if options.json:
        lines = [json.dumps({"part": part, **asdict(row)}, sort_keys=True) for part, rows in parts for row in rows]
    else:
        counts = {part: Counter(row.topic for row in rows) for part, rows in parts}
        lines = [f"{topic:18} {counts['train'][topic]:6} {counts['heldout'][topic]:6}" for topic in world.topics]
        lines = [f"{'topic':18} {'train':>6} {'heldout':>6}", *lines]
        lines.append(f"{'all':18} {len(world.train):6} {len(world.heldout):6}")
    text = "\n".join(lines) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
