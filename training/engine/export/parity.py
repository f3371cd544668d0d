"""Parity: an export beside the version that it was made of, each in its own runtime, on the same tokens.

Compared are the tokens of hard texts, the decisions on held-out rows, and the distributions over the vocabulary
(docs/export.md). Each reads a prompt by its own tokenizer, so that a decision is what a user of the files gets; texts
are followed along the version's tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from training.engine.export.runtimes import Logits, Runtime
from training.engine.spec.export_spec import ExportPlan, Parity, ParityScore

DIFFERENCES_SHOWN = 5
LONGEST_SHOWN = 80
CLEAR = 0.2
"""By so many nats the version's likeliest token is ahead where a place of a text counts as a decision. Nearer ones turn
with the rounding of any runtime: Gemma 3 270M has such a place in six (docs/results.md)."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Probe:
    """What both are asked. With `options` (tokens of each, at least two): which follows `ids`, the tokens of `text`;
    `right` is its place. Without: what follows each token of `ids` from place `first` on."""

    ids: Sequence[int]
    first: int
    options: Sequence[Sequence[int]] = ()
    text: str = ""
    right: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """`log_p` (options,) of a probe with options, else empty; `logits` (places, vocabulary) from the probe's first."""

    log_p: Floats
    logits: Logits


def ask(runtime: Runtime, probe: Probe) -> Reply:
    """P(option | prompt) is the product of the choices where options part, as in training.engine.models.actions."""
    if not probe.options:
        return Reply(np.zeros(0), runtime.logits(probe.ids)[probe.first :])
    children: dict[tuple[int, ...], list[int]] = {}
    for sequence in probe.options:
        for depth, token in enumerate(sequence):
            known = children.setdefault(tuple(sequence[:depth]), [])
            if token not in known:
                known.append(token)
    parting = {prefix for prefix, tokens in children.items() if len(tokens) > 1}
    behind: dict[tuple[int, ...], Logits] = {}
    for path in sorted(parting, key=len, reverse=True):  # a longer path passes the places of its beginnings
        if path not in behind:
            found = runtime.logits([*probe.ids, *path])[len(probe.ids) - 1 :]
            behind |= {path[:depth]: found[depth] for depth in range(len(path) + 1)}
    log_p = np.zeros(len(probe.options))
    for place, sequence in enumerate(probe.options):
        for depth, token in enumerate(sequence):
            prefix = tuple(sequence[:depth])
            if prefix in parting:
                chosen = behind[prefix][children[prefix]].astype(np.float64)
                log_p[place] += behind[prefix][token] - np.logaddexp.reduce(chosen)
    at_prompt = behind[()] if () in behind else runtime.logits(probe.ids)[-1]
    return Reply(log_p, at_prompt[None])


@dataclass(slots=True)
class _Tally:
    """Sums over the probes. `scored`, of those whose right option is known: (right, p of right) of both."""

    decisions: int = 0
    equal: int = 0
    top1: int = 0
    kl: list[float] = field(default_factory=list)
    scored: list[tuple[bool, float, bool, float]] = field(default_factory=list)

    def add(self, probe: Probe, version: Reply, export: Reply) -> None:
        same = version.logits.argmax(-1) == export.logits.argmax(-1)
        self.top1 += int(same.sum())
        self.kl += list(divergence(version.logits, export.logits))
        if not probe.options:
            first, second = -np.partition(-version.logits.astype(np.float64), 1, axis=-1)[:, :2].T
            clear = first - second >= CLEAR
            self.decisions += int(clear.sum())
            self.equal += int(same[clear].sum())
            return
        chosen, other = int(version.log_p.argmax()), int(export.log_p.argmax())
        self.decisions += 1
        self.equal += chosen == other
        if probe.right is not None:
            p, q = (float(np.exp(reply.log_p[probe.right])) for reply in (version, export))
            self.scored.append((chosen == probe.right, p, other == probe.right, q))


def divergence(version: Logits, export: Logits) -> Floats:
    """KL(p ‖ q) in nats of each row: (n, V), (n, V) → (n,). Rows to spare beyond the vocabulary of one are left out."""
    width = min(version.shape[-1], export.shape[-1])
    p, q = (_log_softmax(logits[:, :width].astype(np.float64)) for logits in (version, export))
    found: Floats = np.maximum((np.exp(p) * (p - q)).sum(-1), 0.0)
    return found


def _log_softmax(logits: Floats) -> Floats:
    found: Floats = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    return found


def compare(
    version: Runtime,
    export: Runtime,
    *,
    probes: Sequence[Probe],
    held_out: bool,
    texts: Sequence[str],
    plan: ExportPlan,
    on_probe: Callable[[int], None] = lambda done: None,
) -> Parity:
    """`probes` are of held-out rows, or of the fallback. `on_probe` hears how many are done."""
    differ, limits = find_differences(version, export, texts)
    tally = _Tally()
    for done, probe in enumerate(probes):
        on_probe(done)
        own = replace(probe, ids=export.token_ids(probe.text)) if probe.text else probe
        tally.add(probe, ask(version, probe), ask(export, own))
    if not tally.decisions:  # texts alone, and nowhere is one token ahead
        tally.decisions, tally.equal = len(tally.kl), tally.top1
    told, other = _scores(tally)
    finite = bool(np.isfinite(tally.kl).all())
    parity = Parity(
        runtime=export.name,
        prompts="held_out" if held_out else "fallback",
        rows=len(probes),
        texts=len(texts),
        tokens_differ=[text[:LONGEST_SHOWN] for text in differ[:DIFFERENCES_SHOWN]],
        tokens_differ_count=len(differ),
        limits=limits,
        decisions=tally.decisions,
        equal_decisions=tally.equal / tally.decisions,
        bound=plan.bound,
        positions=len(tally.kl),
        kl=float(np.mean(tally.kl)) if finite else None,
        kl_largest=float(np.max(tally.kl)) if finite else None,
        top1=tally.top1 / len(tally.kl),
        version=told,
        export=other,
    )
    return parity.model_copy(update={"refusals": list(find_refusals(parity))})


def find_differences(version: Runtime, export: Runtime, texts: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Texts that become other tokens in the export for no known reason, and how many do for each known one."""
    differ: list[str] = []
    limits: dict[str, int] = {}
    for text in texts:
        if version.token_ids(text) == export.token_ids(text):
            continue
        reason = export.unlike_reason(text)
        if reason is None:
            differ.append(text)
        else:
            limits[reason] = limits.get(reason, 0) + 1
    return differ, limits


def _scores(tally: _Tally) -> tuple[ParityScore | None, ParityScore | None]:
    if not tally.scored:
        return None, None
    right, p, other_right, q = np.array(tally.scored, dtype=np.float64).mean(0).tolist()
    return (
        ParityScore(accuracy=right, probability_of_right=p),
        ParityScore(accuracy=other_right, probability_of_right=q),
    )


def find_refusals(parity: Parity) -> Iterator[str]:
    """Why the export must not be used."""
    if parity.tokens_differ_count:
        yield (
            f"{parity.tokens_differ_count} of {parity.texts} hard texts have other tokens, such as "
            f"{parity.tokens_differ[0]!r}"
        )
    if parity.kl is None:
        yield "its logits are not numbers"
    if parity.bound is not None and parity.equal_decisions < parity.bound:
        yield (
            f"{parity.equal_decisions:.4f} of {parity.decisions} decisions are the version's, and at least "
            f"{parity.bound:g} are required"
        )
