"""The home page of a workspace: the loop's stations, what is stuck, what needs a person, and today's activity."""
