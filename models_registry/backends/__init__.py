"""Asks what serves models: Reckoner's own model server, and any OpenAI-compatible one.

`asking` is the door: it asks a version's servers in their order. `endpoint` says where a server is and what it may
take, `places` where versions are served; `model_server` and `openai` speak their protocols, and share in `writing` how
an answer is asked for and read; `outbound` is the way out of the machine; `breaker` stops asking who does not answer.
"""
