"""Pages that need every floor: home, registry, connect, keys, rewards."""
