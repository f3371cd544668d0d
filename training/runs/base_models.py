"""Which base models a run may use besides the workspace's own versions: `tiny`, `words`, and what the
instance's owner allows.

Without this, whoever may start a run could have the engine load any readable folder, also another workspace's weights
or a stranger's model from a hub.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from models_registry.artifacts.opening import local_root
from training.engine.spec.base_files import find_encoder_fault, is_sentence_encoder
from training.engine.spec.methods import METHODS
from training.engine.spec.run_spec import REWARD_MODEL

TINY = "tiny"
WORDS = "words"
"""No model at all: a classifier of words."""
MADE_HERE = (TINY, WORDS)


def hub_ids() -> list[str]:
    """What can be chosen by name: allowed hub ids, and the instance's own base whatever it is."""
    own = [] if settings.BASE_MODEL == TINY else [settings.BASE_MODEL]
    return [*own, *(name for name in settings.BASE_MODELS if name not in own and not name.startswith("/"))]


def list_folders() -> list[str]:
    """Allowed folders that hold a model: the roots that RECKONER_BASE_MODELS names, and what lies directly in them."""
    roots = [Path(name) for name in settings.BASE_MODELS if name.startswith("/")]
    places = [place for root in roots if root.is_dir() for place in (root, *sorted(root.iterdir()))]
    return [str(place) for place in places if (place / "config.json").is_file() and is_allowed_base(str(place))]


def is_allowed_base(name: str) -> bool:
    """A folder is allowed inside an allowed root, links followed; never inside the instance's own directories."""
    if name in MADE_HERE or name in hub_ids():
        return True
    if not name.startswith("/") or "\x00" in name:
        return False
    folder = Path(name).resolve()
    own = [Path(place).resolve() for place in (settings.VAR, local_root(), settings.RUNS)]
    roots = [Path(root).resolve() for root in settings.BASE_MODELS if root.startswith("/")]
    return any(map(folder.is_relative_to, roots)) and not any(map(folder.is_relative_to, own))


def why_no_model(name: str) -> str | None:
    """Returns what a folder lacks to be a policy, for people; None for a hub id, which cannot be checked here."""
    if not name.startswith("/"):
        return None
    if (Path(name) / REWARD_MODEL).is_file():
        return f"{name} is a reward model, which scores texts and is not a policy"
    if not (Path(name) / "config.json").is_file():
        return f"{name} is not a model: it has no config.json"
    if not any(Path(name).glob("*.safetensors")):
        return f"{name} has no weights as safetensors"
    return None


def why_not_for(method: str, name: str, folder: Path) -> str | None:
    """Why the method cannot begin with the model in the folder, which was named so: classifiers need a sentence
    encoder, and the others a language model."""
    is_encoder = is_sentence_encoder(folder)
    if METHODS[method].makes_classifier and not is_encoder:
        return f"{name} is a language model: a classifier begins with a sentence encoder, or with {WORDS}"
    if not METHODS[method].makes_classifier and is_encoder:
        return f"{name} is a sentence encoder, which writes no text: train a classifier over it, or name another base"
    return find_encoder_fault(folder) if is_encoder else None
