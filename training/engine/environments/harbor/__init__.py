"""Task folders of Harbor, the framework behind Terminal-Bench: read and checked by `folders`, with what each needs by
`needs`; tasks of our environments written as such folders by `writing`, whose world `serving` keeps.

The format is that of harbor 0.26 (task.toml version 1.4). Nothing of Harbor is imported. No torch.
"""
