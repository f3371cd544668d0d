"""Training of free text by TRL's trainers (the extra `text`): the bridge to them, and one file a method.

Nothing else imports trl or datasets. A method here reads rows of text or preference pairs, and gives TRL's trainer a
dataset of its own format; `bridge` runs it as a method of ours runs.
"""
