"""The office: files, spreadsheets, a database, chat, an issue tracker and a drive, for tasks of eight professions.

`world` holds its state, as plain data; `files`, `spreadsheets`, `database`, `chat`, `tracker` and `drive` are what can
be done to each part of it. `tools` lists these functions by name, and calls them: in process for rollouts, by `server`
over HTTP for agents in other processes. `calls` has the short calls that a model chooses among. `templates` draws
tasks, `graders` looks at what was left behind, `expert` knows how to solve them, `environment` puts it together.
No torch, no Django.
"""
