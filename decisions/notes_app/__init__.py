"""The notes app's paths under /api, in its own shapes, over the same ledger."""
