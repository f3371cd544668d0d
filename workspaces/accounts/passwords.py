"""Checks a new password for what Django does not check, and keeps the first admin's one-time password in a file until
the admin chooses another one."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.auth.password_validation import CommonPasswordValidator
from django.core.exceptions import ValidationError

from workspaces.models import Membership, User

FIRST_ADMIN = "admin@localhost.localdomain"


def one_time_file() -> Path:
    return Path(settings.VAR) / "secrets" / "one_time_password"


def keep_one_time_password(password: str) -> None:
    """So that the table at the end of the demo can repeat it."""
    path = one_time_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(password)


CONTEXT_WORDS = ("reckoner", "password", "admin", "labeller", "viewer", "workspace", "ledger", "decision", "localhost")
LEAST_LEFT = 8


class NotACommonPassword(CommonPasswordValidator):
    """One of Django's 20,000, or one of them with digits and signs around it: few of the list have twelve letters."""

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        super().validate(password)
        if letters := re.sub(r"^[\W\d_]+|[\W\d_]+$", "", password):
            super().validate(letters)


class NotOnlyKnownWords:
    """A password validator of Django's: without the words that everybody here knows, something has to be left of it."""

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        words = set(CONTEXT_WORDS)
        if isinstance(user, User):
            found = Membership.objects.filter(user_id=user.pk).values_list("workspace__slug", "workspace__name")
            words |= {word for names in found for name in names for word in re.findall(r"[^\W\d_]{4,}", name.lower())}
        left = password.lower()
        for word in sorted(words, key=len, reverse=True):
            left = left.replace(word, "")
        if len(left) < LEAST_LEFT:
            raise ValidationError(
                f"Use {LEAST_LEFT} characters besides words such as Reckoner, admin or the workspace’s name.",
                code="password_of_known_words",
            )

    def get_help_text(self) -> str:
        return f"It must have {LEAST_LEFT} characters besides words such as Reckoner, admin or the workspace’s name."


class NotTheSamePassword:
    """A password validator of Django's: the page and `manage.py changepassword` both ask it."""

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        if user is not None and user.check_password(password):
            raise ValidationError("Choose a password other than the current one.", code="password_unchanged")

    def get_help_text(self) -> str:
        return "Your password can’t be the current one."

    def password_changed(self, password: str, user: AbstractBaseUser | None = None) -> None:
        """Django calls this once the new one is stored."""
        if isinstance(user, User) and user.email == FIRST_ADMIN:
            one_time_file().unlink(missing_ok=True)
