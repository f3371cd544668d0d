"""The few names of openhands-sdk and openhands-tools 1.58.2 that our program uses, with the real ones' signatures.

Its agent asks the model once, by the endpoint that it was given, and writes the answer into a file of the workspace.
"""

SDK = '''
import json, os, pathlib, urllib.request
from typing import Any, Literal

class _Strict:
    """As pydantic's models of the SDK are built: keywords alone, and none that is unknown."""
    def __init__(self, **given):
        for name in given:
            if name not in type(self).FIELDS:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
        self.__dict__.update({**type(self).FIELDS, **given})

class LLM(_Strict):
    FIELDS = {
        "model": "claude", "api_key": None, "base_url": None, "api_version": None, "num_retries": 5,
        "retry_multiplier": 8.0, "retry_min_wait": 8, "retry_max_wait": 64, "timeout": 300, "max_message_chars": 30000,
        "temperature": None, "top_p": None, "top_k": None, "max_input_tokens": None, "max_output_tokens": None,
        "model_canonical_name": None, "api_mode": "auto", "capability_overrides": {}, "extra_headers": None,
        "stream": False, "drop_params": True, "disable_vision": None, "disable_stop_word": False,
        "caching_prompt": True, "log_completions": False, "custom_tokenizer": None, "native_tool_calling": True,
        "force_string_serializer": None, "reasoning_effort": "high", "seed": None, "usage_id": "default",
        "litellm_extra_body": {},
    }
    def __init__(self, **given):
        super().__init__(**given)
        assert self.api_mode in ("auto", "chat", "responses") and self.num_retries >= 0

class Tool(_Strict):
    FIELDS = {"name": None, "params": {}}
    def __init__(self, **given):
        super().__init__(**given)
        assert isinstance(self.name, str) and self.name.strip() and isinstance(self.params, dict)

class Agent(_Strict):
    FIELDS = {
        "llm": None, "tools": [], "mcp_config": {}, "filter_tools_regex": None, "include_default_tools": [],
        "agent_context": None, "system_prompt": None, "system_prompt_filename": "system_prompt.j2",
        "security_policy_filename": "security_policy.j2", "system_prompt_kwargs": {}, "condenser": None,
    }
    def __init__(self, **given):
        super().__init__(**given)
        assert isinstance(self.llm, LLM) and all(isinstance(tool, Tool) for tool in self.tools)

class Conversation:
    def __init__(
        self, agent, *, workspace="workspace/project", plugins=None, persistence_dir=None, conversation_id=None,
        callbacks=None, token_callbacks=None, hook_config=None, max_iteration_per_run: int = 500,
        stuck_detection: bool = True, stuck_detection_thresholds=None, visualizer="default", secrets=None,
        delete_on_close: bool = True, tags=None, user_id=None, client_tools=None,
    ):
        assert isinstance(agent, Agent) and isinstance(max_iteration_per_run, int)
        self.llm, self.workspace, self.message = agent.llm, pathlib.Path(workspace), None

    def send_message(self, message: str, sender: str | None = None) -> None:
        assert isinstance(message, str)
        self.message = message

    def run(self) -> None:
        from openhands.sdk.conversation.exceptions import ConversationRunError
        from openhands.sdk.llm.exceptions import LLMContextWindowExceedError
        if self.message == "wait":
            import time
            time.sleep(600)
        if self.message == "fail":
            raise ConversationRunError("id", ValueError("the sandbox is gone"))
        provider, _, model = self.llm.model.partition("/")
        assert provider == "openai"
        body = {"model": model, "messages": [{"role": "user", "content": self.message}]}
        request = urllib.request.Request(
            self.llm.base_url + "/chat/completions", json.dumps(body).encode(),
            {"Authorization": "Bearer " + self.llm.api_key, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request) as answer:
                said = json.load(answer)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            raise ConversationRunError("id", LLMContextWindowExceedError()) from error
        (self.workspace / "answer.txt").write_text(said)
        (self.workspace / "home.txt").write_text(os.environ["HOME"])

    def close(self) -> None:
        pass
'''
RUN_ERROR = """
class ConversationRunError(RuntimeError):
    def __init__(
        self, conversation_id, original_exception, persistence_dir=None, message=None, conversation_error=None
    ):
        self.original_exception = original_exception
        super().__init__(message or f"Conversation run failed for id={conversation_id}: {original_exception}")
"""
CONTEXT_ERROR = """
class LLMContextWindowExceedError(Exception):
    def __init__(self, message="Conversation history longer than LLM context window limit."):
        super().__init__(message)
"""
FILES = {
    # What the SDK's own packages import late, and our program with the SDK.
    "httpcore/__init__.py": "",
    "openai/resources/__init__.py": "",
    "openhands/sdk/__init__.py": SDK,
    "openhands/sdk/conversation/exceptions.py": RUN_ERROR,
    "openhands/sdk/llm/exceptions/__init__.py": CONTEXT_ERROR,
    "openhands/tools/terminal/__init__.py": "class TerminalTool:\n    name = 'terminal'\n",
    "openhands/tools/file_editor/__init__.py": "class FileEditorTool:\n    name = 'file_editor'\n",
}
PACKAGES = {"openhands-sdk": "1.58.2", "openhands-tools": "1.58.2"}
