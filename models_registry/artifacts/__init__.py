"""The instance's artifact store under Django: opening, quota, holders, collection, archives."""
