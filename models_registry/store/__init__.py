"""The content-addressed store of artifacts, on a local disk or at a server that speaks S3. Without Django.

`models_registry.artifacts.opening` opens it by the settings; the model server opens it by its arguments.
"""
