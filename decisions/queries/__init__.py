"""The ledger read: lists and searches, what a page shows of a decision or an episode, exports, readiness to train."""
