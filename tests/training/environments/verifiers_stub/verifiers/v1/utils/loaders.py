import importlib

import verifiers.v1 as vf


def _class_of(name, base):
    module = importlib.import_module(name)
    return next(kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base))


def taskset_config_type(name):
    return _class_of(name, vf.TasksetConfig)


def load_taskset(config):
    module = importlib.import_module(config.id)
    return getattr(module, module.__all__[0])(config)


def environment_class(name):
    return vf.SingleAgentEnv
