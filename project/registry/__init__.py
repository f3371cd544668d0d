"""The registry's pages: models, versions, experiments. They show evaluations and exports, so they need every floor."""
