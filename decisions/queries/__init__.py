"""Reads of the ledger: lists, searches, what pages show of decisions and episodes, exports, readiness to train."""
