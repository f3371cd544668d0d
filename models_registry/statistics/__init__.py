"""The statistics that decide experiments, as pure functions. `models_registry.experiments` calls them."""
