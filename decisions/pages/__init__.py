"""The ledger's pages under /w/<workspace>/: views and URLs."""
