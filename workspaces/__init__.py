"""The lowest floor: workspaces, people, API keys and the audit, and what every floor uses (errors, pages, ids)."""
