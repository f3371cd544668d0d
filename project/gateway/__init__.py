"""The gateway of chats: a process of its own, which OpenAI's clients talk to (docs/gateway.md, docs/adr/0033)."""
