from django.apps import AppConfig


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"

    def ready(self) -> None:
        from django.urls import register_converter

        from models_registry.api.converters import VersionConverter
        from models_registry.models import Artifact, Backend, Experiment, ModelVersion, RegisteredModel
        from workspaces.audit.targets import name_targets

        register_converter(VersionConverter, "version")
        name_targets("artifact", Artifact)
        name_targets("backend", Backend)
        name_targets("experiment", Experiment)
        name_targets("model_version", ModelVersion, "registered_model")
        name_targets("registered_model", RegisteredModel)
