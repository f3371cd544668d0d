"""What the home page calls stuck: each cause is found, said and gone once it is repaired."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from project.pages.home.overview import read_home
from tests.project.home.home_world import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    at,
    decide,
    make_dead_job,
    make_experiment,
    make_failed_run,
    make_still_run,
    say,
    whats,
)
from tools.factories import (
    AgentFactory,
    AliasFactory,
    ExposureFactory,
    JobFactory,
    ModelVersionFactory,
    ObservationFactory,
    OutboxFactory,
    RunEventFactory,
    TrainingRunFactory,
    uuid7_at,
)
from training.exports.services import EXPORT


def make_dead_export(agent: Any) -> Any:
    ended = {"state": "dead", "finished_at": NOW - HOUR, "error": "OSError: disk full"}
    return JobFactory(workspace=agent.workspace, kind=EXPORT, id=uuid7_at(NOW - HOUR), **ended)


def make_lost_job(agent: Any) -> Any:
    return JobFactory(workspace=agent.workspace, kind="k", state="running", attempts=1, lease_until=NOW - MINUTE)


def make_retried_job(agent: Any) -> Any:
    return JobFactory(
        workspace=agent.workspace,
        kind="k",
        attempts=1,
        error="OSError: disk full",
        run_after=NOW,
        started_at=NOW - MINUTE,
    )


def make_waiting_job(agent: Any) -> Any:
    return JobFactory(workspace=agent.workspace, kind="k", run_after=NOW - HOUR)


def make_unsent_hint(agent: Any) -> Any:
    return OutboxFactory(job=JobFactory(workspace=agent.workspace, kind="k", run_after=NOW - 5 * MINUTE), sent_at=None)


def make_unbalanced_experiment(agent: Any) -> Any:
    experiment = make_experiment(agent, sample_ratio_mismatch=True)
    return ObservationFactory(exposure=ExposureFactory(phase=experiment.phases.get()))


def make_rolled_back_experiment(agent: Any) -> Any:
    return make_experiment(agent, state="rolled_back", ended_at=NOW - HOUR, verdict="E⁻ reached 20")


STUCK: list[tuple[Callable[[Any], Any], str, str, str]] = [
    (make_failed_run, "train", "failed", "ValueError: no rows"),
    (make_still_run, "train", "makes no progress", "The training process has not reported."),
    (make_dead_job, "experiment", "“Mature outcomes” failed permanently", "KeyError: 'x'"),
    (make_dead_export, "register", "Job “Export version” failed permanently", "disk full"),
    (make_lost_job, "record", "lost its worker", "attempt 1 of 3"),
    (make_retried_job, "record", "is being retried", "disk full"),
    (make_waiting_job, "record", "is waiting", "No worker has started it."),
    (make_unsent_hint, "record", "1 due jobs have not reached a worker", "broker"),
    (make_experiment, "experiment", "has no matured unit", "No unit has been exposed"),
    (make_unbalanced_experiment, "experiment", "Sample ratio mismatch", "cannot be trusted"),
    (make_rolled_back_experiment, "experiment", "was rolled back", "E⁻ reached 20"),
]


class TestStuck:
    @pytest.mark.parametrize(
        "make, station, what, why", STUCK, ids=[case[0].__name__.removeprefix("make_") for case in STUCK]
    )
    @pytest.mark.quick_cases(4)
    def test_it_says_what_and_why_and_since_when(
        self, agent: Any, other_workspace: Any, make: Callable[[Any], Any], station: str, what: str, why: str
    ) -> None:
        make(AgentFactory(workspace=other_workspace))
        assert read_home(agent.workspace, NOW).stuck == ()
        make(agent)
        [item] = read_home(agent.workspace, NOW).stuck
        assert item.station == station and what in item.what and why in item.why
        assert item.since is not None and item.since <= NOW
        assert at(read_home(agent.workspace, NOW), station).state == "stuck"

    def test_a_run_that_speaks_moves_and_a_failure_that_was_made_good_is_over(self, agent: Any) -> None:
        RunEventFactory(run=make_still_run(agent), attempt=2, sequence=1, at=NOW - MINUTE)
        make_failed_run(agent)
        version = ModelVersionFactory(registered_model=agent.registered_model)
        TrainingRunFactory(agent=agent, state="succeeded", produced_version=version, finished_at=NOW - MINUTE)
        assert read_home(agent.workspace, NOW).stuck == ()

    def test_units_that_met_it_and_none_matured_is_said_otherwise(self, agent: Any) -> None:
        ExposureFactory(phase=make_experiment(agent).phases.get())
        [item] = read_home(agent.workspace, NOW).stuck
        assert item.why == "Units were exposed, but none has matured."

    def test_a_shared_job_s_error_is_not_shown_to_a_workspace(self, workspace: Any) -> None:
        ended = {"state": "dead", "finished_at": NOW - HOUR, "error": "row of elsewhere: secret"}
        JobFactory(workspace=None, kind="decisions.calculate_rewards", id=uuid7_at(NOW - HOUR), **ended)
        [item] = read_home(workspace, NOW).stuck
        assert item.station == "reward" and "secret" not in item.why + item.what

    def test_feedback_whose_decision_never_came_is_stuck(self, agent: Any) -> None:
        decision = decide(agent, NOW - DAY)
        say(decision, NOW - 2 * HOUR)
        early = decide(agent, NOW - DAY)
        say(early, NOW - 10 * MINUTE)
        type(decision).objects.filter(pk__in=[decision.pk, early.pk]).delete()
        [item] = read_home(agent.workspace, NOW).stuck
        assert item.station == "feedback" and item.what.startswith("1 ") and item.since == NOW - 2 * HOUR


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent."""


@pytest.fixture
def answering() -> Iterator[str]:
    """The address of something that answers."""
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_server_that_does_not_answer_stops_the_serving(agent: Any, answering: str, settings: Any) -> None:
    settings.MODEL_SERVER_URL = "http://127.0.0.1:9"  # the discard port: nobody listens
    assert read_home(agent.workspace, NOW).stuck == ()  # no version serves: nobody asks
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    assert whats(read_home(agent.workspace, NOW).stuck) == ["The model server does not answer"]
    settings.MODEL_SERVER_URL = answering
    assert read_home(agent.workspace, NOW).stuck == ()
