"""The home page of a workspace: how far the loop is, what is stuck, who is needed, what moved today."""
