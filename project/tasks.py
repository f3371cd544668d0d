"""Job kinds that need every floor."""

from __future__ import annotations

from jobs.registry import job_kind
from project.demo.loop import KIND, run_demo_loop

job_kind(KIND)(run_demo_loop)
