"""A strict stand-in for `docker`: it takes the calls of a run of TheAgentCompany and refuses any other.

Beside it lie `state` (containers, and files that make it fail) and the log of its calls.
"""

import json
import os
import sys
from pathlib import Path

HERE = Path(sys.argv[0]).parent
STATE = HERE / "state"
PARTIAL = {
    "checkpoints": [{"total": 1, "result": 1}, {"total": 2, "result": 0}],
    "final_score": {"total": 3, "result": 1},
}
FULL = {"checkpoints": [{"total": 1, "result": 0}, {"total": 2, "result": 2}], "final_score": {"total": 3, "result": 3}}


def refuse(why: str) -> None:
    sys.exit(f"docker stub: {why}: {sys.argv[1:]}")


def at_container(name: str) -> Path:
    if not (STATE / "containers" / name).is_file():
        refuse("no such container")
    return STATE / "containers" / name


def start(arguments: list[str]) -> None:
    flags, image, command = arguments[:7], arguments[7], arguments[8:]
    if flags[:2] != ["--detach", "--name"] or flags[3:6] != ["--network", "host", "--volume"]:
        refuse("unexpected flags")
    folder, _, target = flags[6].rpartition(":")
    if target != "/outputs" or not Path(folder).is_absolute() or not Path(folder).is_dir():
        refuse("--volume must bind a folder to /outputs")
    if command != ["sleep", "infinity"] or image not in (STATE / "images").read_text().split():
        refuse("unexpected image or command")
    (STATE / "containers" / flags[2]).write_text(folder)


def execute(arguments: list[str]) -> None:
    given = {}
    while arguments[0] == "--env":
        name, parted, value = arguments[1].partition("=")
        given[name] = value if parted else os.environ.get(name) or refuse(f"{name} is not set")
        arguments = arguments[2:]
    folder = Path(at_container(arguments[0]).read_text())
    command = arguments[1:]
    if command == ["bash", "/utils/init.sh"]:
        if given.get("SERVER_HOSTNAME") != "localhost" or "DECRYPTION_KEY" in given:
            refuse("unexpected variables")
        if (STATE / "init-fails").exists():
            sys.exit("gitlab is not healthy")
    elif command[:2] == ["bash", "-c"] and not given:
        (STATE / "work").write_text(command[2])
    elif command[:2] == ["python_default", "/utils/eval.py"]:
        evaluate(command[2:], given, folder)
    else:
        refuse("unexpected command")


def evaluate(arguments: list[str], given: dict[str, str], folder: Path) -> None:
    if arguments != ["--trajectory_path", "/outputs/trajectory.json", "--result_path", "/outputs/result.json"]:
        refuse("unexpected paths")
    if given.get("DECRYPTION_KEY") != "key-of-files":
        refuse("no key")
    if (STATE / "evaluator-fails").exists():
        sys.exit("Failed to grade the task")
    if (STATE / "errors").exists():
        sys.stderr.write((STATE / "errors").read_text())
    (folder / "result.json").write_text(json.dumps(FULL if (STATE / "work").exists() else PARTIAL))


def main() -> None:
    with (HERE / "calls").open("a") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
    verb, arguments = sys.argv[1], sys.argv[2:]
    if (STATE / "no-daemon").exists():
        sys.exit("Cannot connect to the Docker daemon")
    if verb == "version" and arguments == ["--format", "{{.Server.Version}}"]:
        sys.stdout.write("27.0\n")
    elif verb == "image" and arguments[:3] == ["inspect", "--format", "{{.Id}}"]:
        if arguments[3] not in (STATE / "images").read_text().split():
            sys.exit(f"No such image: {arguments[3]}")
    elif verb == "run":
        start(arguments)
    elif verb == "exec":
        execute(arguments)
    elif verb == "rm" and arguments[:1] == ["--force"]:
        at_container(arguments[1]).unlink()
    else:
        refuse("unexpected call")


main()
