"""Whether a person still has to turn on two-factor authentication."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.conf import settings

from workspaces.models import User


def lacks_second_factor(user: User) -> bool:
    """True where one is required and the person has none. Who logs in by OpenID Connect alone has the provider's."""
    return bool(
        settings.TWO_FACTOR_REQUIRED
        and user.has_usable_password()
        and not Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists()
    )
