"""The notes app's own paths under /api, in its shapes; what they record and read is the same ledger."""
