"""A store of tiny models, and the model server as a process with a client."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import torch
from peft import LoraConfig, get_peft_model

from tools import model_server
from tools.ports import free_port
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import (
    Loaded,
    attach_adapter,
    build_tiny,
    build_tokenizer,
    load_model,
    load_tokenizer,
    save,
)
from training.engine.spec.run_spec import TinyShape

CPU = torch.device("cpu")
TOKEN = "only-for-this-test"
COLD = (sys.executable, "-m", "training.engine.server")
"""Without tools/warm.py."""
SHORT = ["keep", "throw away", "ask the owner"]
LONG = ["keep the parcel", "keep the letter", "keep it", "throw away", "burn"]
PROMPTS = [
    "a parcel without a name",
    "two letters for the house next door, one of them torn at the corner and wet from the rain",
    "old news",
    "a box of nails, rusty, opened, and heavy enough to need two people",
]


def put(root: Path, folder: Path, kind: str, **meta: str) -> str:
    """Stores a copy of a folder as the registry does, and returns its digest."""
    files = {
        path.relative_to(folder).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = {"schema": 1, "kind": kind, "files": files, "meta": meta}
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(raw).hexdigest()
    target = root / "sha256" / digest[:2] / digest
    shutil.copytree(folder, target)
    (target / "MANIFEST.json").write_bytes(raw)
    return digest


@dataclass
class Shelf:
    """A store of tiny artifacts, and the folders they came from."""

    root: Path
    scratch: Path
    base: str = ""
    folder: Path = Path()
    adapters: dict[str, Path] = field(default_factory=dict)

    def make_base(
        self, seed: int, hidden: int = 32, positions: int = 128, template: str | None = None
    ) -> tuple[str, Path]:
        texts = [*PROMPTS, *SHORT, *LONG]
        tokenizer = build_tokenizer(texts * 3, [*SHORT, *LONG], 400)
        tokenizer.chat_template = template or tokenizer.chat_template
        torch.manual_seed(seed)
        shape = TinyShape(vocabulary=400, hidden=hidden, heads=4, key_value_heads=2, max_positions=positions)
        folder = self.scratch / f"base{seed}"
        save(Loaded(build_tiny(shape, tokenizer).eval(), tokenizer), folder)
        return put(self.root, folder, "model"), folder

    def make_adapter(self, seed: int, *, of: Path | None = None, claims: str | None = None) -> str:
        """An adapter with random weights, so that it answers otherwise than its base; stored under `claims`."""
        torch.manual_seed(seed)
        base = of or self.folder
        config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
        folder = self.scratch / f"adapter{seed}"
        save(Loaded(get_peft_model(load_model(base, CPU), config), load_tokenizer(base)), folder)
        digest = put(self.root, folder, "adapter", base=claims or self.base)
        self.adapters[digest] = folder
        return digest

    def expect(self, model: str, prompt: str, options: list[str], max_prompt_tokens: int = 64) -> list[float]:
        """What the engine itself gives for one row alone, with this adapter alone."""
        loaded = self._alone(model)
        scorer = ActionScorer(load_tokenizer(self.folder), max_prompt_tokens)
        with torch.inference_mode():
            return scorer.log_probabilities(loaded, scorer.encode([prompt]), [options])[0].exp().tolist()

    def continues(self, model: str, prompt: str, tokens: int) -> str:
        """What transformers' own greedy generation answers."""
        tokenizer = load_tokenizer(self.folder)
        ids = torch.tensor([ActionScorer(tokenizer, 128).encode([prompt])[0]])
        with torch.inference_mode():
            out = self._alone(model).generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens
            )
        return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)

    def _alone(self, model: str):
        loaded = load_model(self.folder, CPU)
        return loaded if model == self.base else attach_adapter(loaded, self.adapters[model], "alone")


def make_shelf(tmp_path_factory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("scratch"))
    shelf.base, shelf.folder = shelf.make_base(0)
    shelf.make_adapter(1)
    shelf.make_adapter(2)
    return shelf


class Process:
    """The server in its own process, and a client for it."""

    def __init__(self, root: Path, *arguments: str, program: tuple[str, ...] | None = None) -> None:
        port = free_port()
        command = [*(program or model_server.SERVER), "--port", str(port), "--artifacts", str(root)]
        environment = os.environ | {"RECKONER_MODEL_SERVER_TOKEN": TOKEN}
        self.process = subprocess.Popen(
            [*command, "--threads", "1", *arguments], env=environment, stderr=subprocess.PIPE, text=True
        )
        self.address = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(
            base_url=self.address,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=60,
            trust_env=False,
            verify=False,
        )
        for _ in range(3000):
            try:
                self.client.get("/livez")
                return
            except httpx.TransportError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        raise RuntimeError(f"the server did not start: {self.stop()}")

    def stop(self) -> tuple[int, str]:
        """Exit status and log."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, log = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, log

    def score(self, *items: dict) -> httpx.Response:
        return self.client.post("/score", json={"items": list(items)})

    def probabilities(self, *items: dict) -> list[list[float]]:
        response = self.score(*items)
        assert response.status_code == 200, response.text
        return [result["probabilities"] for result in response.json()["results"]]

    def chat(self, model: str, content: str, **parameters) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": content}], **parameters}
        return self.client.post("/v1/chat/completions", json=body)


def item(model: str, prompt: str = PROMPTS[0], options: list[str] = SHORT, **more) -> dict:
    return {"model": model, "prompt": prompt, "options": options, **more}
