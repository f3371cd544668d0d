"""Policies that are classifiers: linear heads on hashed words, on a frozen sentence encoder, or on both."""
