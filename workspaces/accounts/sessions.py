"""Sessions in the database that end when they are not used for a while, and at their greatest age. SESSION_ENGINE.

A row's `expire_date` is the end of the pause. It is put off by one statement that leaves the session's content alone,
and only when a twentieth of the pause has passed.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.utils import timezone

BEGAN = "began"
"""Seconds since 1970 at the log-in."""
GRAIN = 20


class SessionStore(db.SessionStore):
    @classmethod
    def get_model_class(cls) -> Any:
        from django.contrib.sessions.models import Session  # it cannot be imported before the apps are ready

        return Session

    def get_expiry_age(self, **_: Any) -> int:
        """Of the cookie, in seconds."""
        return round(settings.SESSION_DAYS * 86_400)

    def get_expiry_date(self, **_: Any) -> dt.datetime:
        """Of the row: the end of the pause that begins now."""
        return timezone.now() + _pause()

    def load(self) -> dict[str, Any]:
        row = self._get_session_from_db()  # type: ignore[attr-defined]
        if row is None:
            return {}
        data: dict[str, Any] = self.decode(row.session_data)
        if SESSION_KEY in data and not 0 <= time.time() - data.get(BEGAN, 0) < self.get_expiry_age():
            self.delete(row.session_key)
            self._session_key = None
            return {}
        if row.expire_date < timezone.now() + _pause() * (1 - 1 / GRAIN):
            self.model.objects.filter(session_key=row.session_key).update(expire_date=self.get_expiry_date())
        return data


def _pause() -> dt.timedelta:
    return dt.timedelta(hours=settings.SESSION_IDLE_HOURS)
