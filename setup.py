"""What the wheel holds: the apps, and the templates and static files inside `project`. pyproject.toml has the rest."""

from setuptools import find_packages, setup

APPS = ("sandbox", "workspaces", "jobs", "models_registry", "decisions", "training", "project")

setup(
    packages=[*find_packages(include=[f"{app}{end}" for app in APPS for end in ("", ".*")]),
              "project.templates", "project.static"],
    package_dir={"project.templates": "templates", "project.static": "static"},
    package_data={"project.templates": ["**/*"], "project.static": ["**/*"]},
)  # fmt: skip
