"""Pages of models, versions and experiments. They also show evaluations and exports, so they need every floor."""
