"""Model versions and who serves: the artifact store, aliases, experiments, the model server's client.

The ledger (`decisions`) asks it for answers; `training` registers versions.
"""
