"""What lies beneath the models: ids, what jsonb can hold, caches, prepared statements."""
