"""P(option | prompt) for the options of a decision, in one forward pass of a causal language model.

The options are tokenised (text, then end of sequence) into a trie behind the prompt. Where the trie branches, the
model's logits are normalised over the children alone. The result is the distribution of constrained decoding: it sums
to 1 over the options, and only options can be drawn. The same numbers are logged as propensities, trained on, and
evaluated. Called by every training method and by the model server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import chain, groupby
from typing import Any

import torch
from torch import Tensor, nn

from training.engine.models.adapters import adapters_by_row
from training.engine.models.chats import Message
from training.engine.models.prompts import PromptEncoder
from training.engine.rows.types import Prompt

NO_OPTION = -1e4
"""Log-probability in the columns beyond a row's own options: finite, so that 0 · it is 0, and exp(it) is 0."""

TRIES_KEPT = 4096

WORTH_A_FORWARD = 32
"""Tokens that take a CPU longer than the fixed cost of a forward, even through a tiny model."""


class OptionError(ValueError):
    """The options cannot be told apart, or there is none."""


@dataclass(frozen=True, slots=True)
class Scores:
    """`log_p` (B, K): log-probabilities, K the largest number of options; NO_OPTION beyond a row's own.

    `hidden` (B, H): the last prompt token's state, which a value head reads.
    """

    log_p: Tensor
    hidden: Tensor


def draw_options(log_p: Tensor, chance: Tensor) -> Tensor:
    """The option that each number in `chance` (B, G), uniform in [0, 1), picks by its row's exp(`log_p`) (B, K).

    A row's draws depend on its own numbers alone, whatever rows are calculated beside it.
    """
    last = (log_p > NO_OPTION).sum(1, keepdim=True) - 1  # sums may round to less than 1
    return torch.searchsorted(log_p.exp().cumsum(1), chance, right=True).minimum(last)


class ActionTrie:
    """The token trie of one set of options, pruned to the nodes that lie above a branching.

    N nodes are fed behind the prompt. Slot 0 stands for the last prompt token, slot i + 1 for node i.
    `edges_of` (E, K) is 1 where edge e (a child of a branching slot) lies on the path of option k.
    `branchings[k]` lists where option k could have parted from others: its depth and the children there. `paths` are
    the slots from the first token to each leaf among the nodes.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], device: torch.device) -> None:
        children: dict[tuple[int, ...], list[int]] = {}
        for sequence in sequences:
            for depth, token in enumerate(sequence):
                known = children.setdefault(tuple(sequence[:depth]), [])
                if token not in known:
                    known.append(token)
        branching = [prefix for prefix, tokens in children.items() if len(tokens) > 1]
        fed = sorted({prefix[:n] for prefix in branching for n in range(1, len(prefix) + 1)}, key=lambda p: (len(p), p))
        slot = {prefix: index + 1 for index, prefix in enumerate(fed)} | {(): 0}
        self.size = len(fed)
        self.options = len(sequences)
        self.branchings = [
            [(depth, found) for depth in range(len(sequence)) if len(found := children[tuple(sequence[:depth])]) > 1]
            for sequence in sequences
        ]
        self.tokens = torch.tensor([prefix[-1] for prefix in fed], dtype=torch.long, device=device)
        self.depths = torch.tensor([len(prefix) - 1 for prefix in fed], dtype=torch.long, device=device)
        ancestors = torch.eye(self.size, dtype=torch.bool)
        for prefix in fed:
            for n in range(1, len(prefix)):
                ancestors[slot[prefix] - 1, slot[prefix[:n]] - 1] = True
        self.ancestors = ancestors.to(device)
        # Branchings with as many children are read together: few operations, however many there are.
        branching.sort(key=lambda prefix: len(children[prefix]))
        alike = [list(some) for _, some in groupby(branching, key=lambda prefix: len(children[prefix]))]
        self.branches = [
            (
                torch.tensor([slot[prefix] for prefix in some], dtype=torch.long, device=device),
                torch.tensor([children[prefix] for prefix in some], dtype=torch.long, device=device),
            )
            for some in alike
        ]
        inner = {prefix[:n] for prefix in fed for n in range(1, len(prefix))}
        self.paths = [[slot[leaf[:n]] for n in range(1, len(leaf) + 1)] for leaf in fed if leaf not in inner]
        edges = [(prefix, token) for prefix in branching for token in children[prefix]]
        edge = {pair: place for place, pair in enumerate(edges)}
        edges_of = torch.zeros(len(edge), len(sequences))
        for option, sequence in enumerate(sequences):
            for depth, token in enumerate(sequence):
                index = edge.get((tuple(sequence[:depth]), token))
                if index is not None:
                    edges_of[index, option] = 1.0
        self.edges_of = edges_of.to(device)

    def log_probabilities(self, slots: Tensor, head: Head) -> Tensor:
        """`slots` (B, ≥ N + 1, H) → (B, K), float32."""
        if not self.branches:  # a single option: certain, yet still a function of the weights
            return (0.0 * slots[:, :1, 0].float()).expand(-1, self.options)
        by_slot = slots.transpose(0, 1)
        edges = [head.logits(by_slot[places], tokens).log_softmax(-1) for places, tokens in self.branches]
        return torch.cat([some.transpose(0, 1).flatten(1) for some in edges], 1) @ self.edges_of


@dataclass(frozen=True, slots=True)
class Head:
    """The output layer. For chosen tokens only, so that a vocabulary of 150,000 need not be multiplied out."""

    weight: Tensor
    bias: Tensor | None
    scale: float
    softcap: float | None
    temperature: float = 1.0

    @classmethod
    def of(cls, causal: Any, temperature: float = 1.0) -> Head:
        """`scale` and `softcap` are what Cohere, Granite and Gemma do to their logits; `temperature` divides them."""
        layer, config = causal.get_output_embeddings(), causal.config
        scale = float(getattr(config, "logit_scale", None) or 1.0) / float(getattr(config, "logits_scaling", 0) or 1.0)
        softcap = getattr(config, "final_logit_softcapping", None)
        return cls(layer.weight, getattr(layer, "bias", None), scale, softcap, temperature)

    def logits(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """`hidden` (…, B, H), `tokens` (…, C) or None for the whole vocabulary → (…, B, C) in float32."""
        chosen = slice(None) if tokens is None else tokens
        logits = hidden.float() @ self.weight[chosen].float().mT
        if self.bias is not None:
            logits = logits + self.bias[chosen].float()[..., None, :]
        logits = logits * self.scale
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits if self.temperature == 1.0 else logits / self.temperature


def causal_of(model: nn.Module) -> Any:
    """The causal language model itself, out of its peft wrapper if it has one."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]


def hidden_size(model: nn.Module) -> int:
    """Its hidden dimensions."""
    return int(causal_of(model).config.get_text_config().hidden_size)


def pad_right(sequences: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token lists → ids (B, T) and lengths (B,)."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.full((len(sequences), int(lengths.max())), pad, dtype=torch.long)
    inside = torch.arange(ids.shape[1])[None] < lengths[:, None]
    ids[inside] = torch.tensor(list(chain.from_iterable(sequences)), dtype=torch.long)
    return ids.to(device), lengths.to(device)


def parts_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Row numbers, shortest first, parted wherever that saves more padding than another forward costs."""

    def part(rows: list[int]) -> list[list[int]]:
        longest = lengths[rows[-1]]
        saved, cut = max((n * (longest - lengths[rows[n - 1]]), n) for n in range(1, len(rows) + 1))
        return [rows] if saved < WORTH_A_FORWARD else [*part(rows[:cut]), *part(rows[cut:])]

    return part(sorted(range(len(lengths)), key=lambda row: lengths[row]))


class ActionScorer:
    """Scores options behind prompts. Rows of one batch may have different options, in any order."""

    def __init__(self, tokenizer: Any, max_prompt_tokens: int, device: torch.device | str = "cpu") -> None:
        self.tokenizer = tokenizer
        self.device = torch.device(device)
        self.prompts = PromptEncoder(tokenizer, max_prompt_tokens)
        self._tries: OrderedDict[tuple[str, ...], ActionTrie] = OrderedDict()

    def encode(self, prompts: Sequence[str | Prompt]) -> list[list[int]]:
        """Prompts → token ids, ready for `score`. Raises SystemPromptTooLong."""
        return self.prompts.encode(prompts)

    def answer_ids(self, options: Sequence[str]) -> list[list[int]]:
        """Each option's text followed by end of sequence."""
        ids = self.tokenizer(list(options), add_special_tokens=False)["input_ids"]
        return [[*sequence, self.tokenizer.eos_token_id] for sequence in ids]

    def encode_replies(self, prompts: Sequence[str | Prompt], replies: Sequence[str | Message]) -> list[list[int]]:
        """Each of the assistant's messages behind its prompt, up to the end of its turn."""
        return self.prompts.encode_replies(prompts, replies)

    def trie(self, options: Sequence[str]) -> ActionTrie:
        """The trie of these options in sorted order. Raises OptionError."""
        key = tuple(sorted(options))
        trie = self._tries.get(key)
        if trie is None:
            if not key:
                raise OptionError("a decision needs at least one option")
            sequences = self.answer_ids(key)
            if len({tuple(sequence) for sequence in sequences}) < len(key):
                raise OptionError(f"two of the options are the same tokens: {', '.join(key)}")
            trie = self._tries[key] = ActionTrie(sequences, self.device)
            if len(self._tries) > TRIES_KEPT:
                self._tries.popitem(last=False)
        else:
            self._tries.move_to_end(key)
        return trie

    def log_probabilities(
        self,
        model: nn.Module,
        prompt_ids: Sequence[Sequence[int]],
        options: Sequence[Sequence[str]],
        adapter_names: Sequence[str] | None = None,
    ) -> Tensor:
        """(B, K) log-probabilities in the order of each row's options; see `score`."""
        return self.score(model, prompt_ids, options, adapter_names).log_p

    def score(
        self,
        model: nn.Module,
        prompt_ids: Sequence[Sequence[int]],
        options: Sequence[Sequence[str]],
        adapter_names: Sequence[str] | None = None,
    ) -> Scores:
        """One forward. `prompt_ids[i]` comes from `encode`, `options[i]` are the texts offered in row i.

        With `adapter_names` (see `adapters_by_row`) row i is scored under its own adapter. Gradients flow unless
        the caller turned them off. Raises OptionError.
        """
        states = self.states(model, prompt_ids, options, adapter_names)
        return Scores(self.read(model, states, options), states[:, 0].float())

    def states(
        self,
        model: nn.Module,
        prompt_ids: Sequence[Sequence[int]],
        options: Sequence[Sequence[str]],
        adapter_names: Sequence[str] | None = None,
    ) -> Tensor:
        """The forward alone: (B, N + 1, H), the last prompt token's state and those of the trie's nodes.

        On the CPU, a batch of very different lengths goes through in parts of similar ones.
        """
        tries = [self.trie(row) for row in options]
        parts = parts_by_length([len(ids) for ids in prompt_ids]) if self.device.type == "cpu" else []
        if len(parts) < 2:
            parts = [list(range(len(tries)))]
        found = []
        for rows in parts:
            ids, lengths = pad_right([prompt_ids[i] for i in rows], self.tokenizer.pad_token_id, self.device)
            with adapters_by_row(model, adapter_names and [adapter_names[i] for i in rows]):
                found.append(self._slots(causal_of(model), ids, lengths, [tries[i] for i in rows]))
        if len(parts) == 1:
            return found[0]
        width = max(slots.shape[1] for slots in found)
        together = torch.cat([nn.functional.pad(slots, (0, 0, 0, width - slots.shape[1])) for slots in found])
        return together[torch.tensor(list(chain.from_iterable(parts))).argsort()]

    def read(
        self, model: nn.Module, states: Tensor, options: Sequence[Sequence[str]], temperature: float = 1.0
    ) -> Tensor:
        """The states' log-probabilities (B, K), in float32 even where the forward ran in bfloat16.

        `temperature` divides the logits of every token.
        """
        tries = [self.trie(row) for row in options]
        with torch.autocast(self.device.type, enabled=False):
            return self._assemble(states, Head.of(causal_of(model), temperature), tries, options)

    def _slots(self, causal: Any, ids: Tensor, lengths: Tensor, tries: list[ActionTrie]) -> Tensor:
        """Hidden states (B, N + 1, H) of the last prompt token and of the trie's nodes."""
        backbone = getattr(causal, causal.base_model_prefix)
        rows = torch.arange(len(ids), device=self.device)
        nodes = max(trie.size for trie in tries)
        if nodes == 0:  # options that part at their first token, the common case: plain causal attention
            hidden = backbone(input_ids=ids, use_cache=False).last_hidden_state
            last: Tensor = hidden[rows, lengths - 1][:, None]
            return last
        if not _takes_trees(causal, backbone):
            return self._path_by_path(backbone, ids, lengths, tries, nodes)
        prompt = ids.shape[1]
        tokens, depths, ancestors = self._pack(tries, nodes)
        positions = torch.cat(
            [torch.arange(prompt, device=self.device).expand(len(ids), -1), lengths[:, None] + depths], 1
        )
        seen = torch.zeros(len(ids), prompt + nodes, prompt + nodes, dtype=torch.bool, device=self.device)
        seen[:, :prompt, :prompt] = torch.ones(prompt, prompt, dtype=torch.bool, device=self.device).tril()
        seen[:, prompt:, :prompt] = (torch.arange(prompt, device=self.device)[None] < lengths[:, None])[:, None]
        seen[:, prompt:, prompt:] = ancestors
        hidden = backbone(
            input_ids=torch.cat([ids, tokens], 1),
            attention_mask=_attention_masks(causal, seen, positions),
            position_ids=positions,
            use_cache=False,
        ).last_hidden_state
        return torch.cat([hidden[rows, lengths - 1][:, None], hidden[:, prompt:]], 1)

    def _path_by_path(self, backbone: Any, ids: Tensor, lengths: Tensor, tries: list[ActionTrie], nodes: int) -> Tensor:
        """As `_slots`, in as many forwards as the largest trie has leaves: the way for Mamba and others that can only
        read a text from left to right."""
        prompts = [row[:length] for row, length in zip(ids.tolist(), lengths.tolist(), strict=True)]
        places: dict[tuple[int, int], tuple[int, int, int]] = {}
        states = []
        for turn in range(max(len(trie.paths) for trie in tries)):
            paths = [trie.paths[min(turn, len(trie.paths) - 1)] if trie.paths else [] for trie in tries]
            tokens = [trie.tokens[[at - 1 for at in path]].tolist() for trie, path in zip(tries, paths, strict=True)]
            read = [prompt + more for prompt, more in zip(prompts, tokens, strict=True)]
            padded, _ = pad_right(read, self.tokenizer.pad_token_id, self.device)
            states.append(backbone(input_ids=padded, use_cache=False).last_hidden_state)
            for row, path in enumerate(paths):
                for behind, at in enumerate([0, *path]):
                    places.setdefault((row, at), (turn, row, len(prompts[row]) - 1 + behind))
        found = states[0].new_zeros(len(tries), nodes + 1, states[0].shape[-1])
        where = torch.tensor(list(places), device=self.device).unbind(1)
        filled: Tensor = found.index_put(
            where, torch.stack([states[turn][row, at] for turn, row, at in places.values()])
        )
        return filled

    def _pack(self, tries: list[ActionTrie], nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tries of different sizes → tokens (B, N), depths (B, N) and ancestors (B, N, N); filler sees itself only."""
        distinct = list({id(trie): trie for trie in tries}.values())
        tokens = torch.zeros(len(distinct), nodes, dtype=torch.long, device=self.device)
        depths = torch.zeros_like(tokens)
        ancestors = torch.eye(nodes, dtype=torch.bool, device=self.device).repeat(len(distinct), 1, 1)
        for index, trie in enumerate(distinct):
            tokens[index, : trie.size] = trie.tokens
            depths[index, : trie.size] = trie.depths
            ancestors[index, : trie.size, : trie.size] = trie.ancestors
        number = {id(trie): index for index, trie in enumerate(distinct)}
        of_row = torch.tensor([number[id(trie)] for trie in tries], device=self.device)
        return tokens[of_row], depths[of_row], ancestors[of_row]

    def _assemble(self, slots: Tensor, head: Head, tries: list[ActionTrie], options: Sequence[Sequence[str]]) -> Tensor:
        """Rows are read trie by trie, then put in the order of their own options."""
        rows_of: dict[int, list[int]] = {}
        for row, trie in enumerate(tries):
            rows_of.setdefault(id(trie), []).append(row)
        width = max(trie.options for trie in tries)
        log_p = torch.full((len(tries), width), NO_OPTION, device=self.device)
        for rows in rows_of.values():
            trie = tries[rows[0]]
            index = torch.tensor(rows, device=self.device)
            ordered = trie.log_probabilities(slots if len(rows) == len(tries) else slots[index], head)
            places = torch.tensor([_places(options[row]) for row in rows], device=self.device)
            ordered = ordered.gather(1, places)
            if len(rows) == len(tries):
                return ordered
            log_p = log_p.index_copy(0, index, nn.functional.pad(ordered, (0, width - trie.options), value=NO_OPTION))
        return log_p


def _places(options: Sequence[str]) -> list[int]:
    """Where each option stands among the sorted ones."""
    rank = {option: place for place, option in enumerate(sorted(options))}
    return [rank[option] for option in options]


def _kinds_of_layers(config: Any) -> set[str]:
    return set(getattr(config, "layer_types", None) or ())


def _takes_trees(causal: Any, backbone: Any) -> bool:
    """Whether a mask can say which tokens each token sees, and each token has a position of its own: so that all nodes
    of a trie go through in one forward."""
    config = causal.config.get_text_config()
    masked = {"attention_mask", "position_ids"} <= set(signature(backbone.forward).parameters)
    known = _kinds_of_layers(config) <= {"full_attention", "sliding_attention"}
    return masked and known and getattr(config, "attention_chunk_size", None) is None


def _attention_masks(causal: Any, seen: Tensor, positions: Tensor) -> Tensor | dict[str, Tensor]:
    """`seen` (B, T, T), which tokens each may attend to, as additive masks (B, 1, T, T): one for all layers, or by the
    kind of layer where some have a sliding window (Gemma 2 and 3, Qwen 2 and 3, …).

    The windows count positions, not places: nodes of a trie stand side by side.
    """
    config = causal.config.get_text_config()
    window: int | None = getattr(config, "sliding_window", None)

    def additive(allowed: Tensor) -> Tensor:
        mask = torch.zeros(allowed.shape, dtype=causal.dtype, device=allowed.device)
        # Half of the least value: the least itself would round to minus infinity in a narrower type.
        return mask.masked_fill_(~allowed, torch.finfo(causal.dtype).min / 2)[:, None]

    def sliding(window: int) -> Tensor:
        return additive(seen & (positions[:, :, None] - positions[:, None, :] < window))

    # transformers.masking_utils.create_masks_for_generate draws the same distinctions.
    kinds = _kinds_of_layers(config)
    if window is None or kinds == {"full_attention"}:
        return additive(seen)
    if not kinds:
        return sliding(window)
    return {kind: sliding(window) if kind == "sliding_attention" else additive(seen) for kind in sorted(kinds)}
