"""Paths of signing in and out, and of one's account.

Of allauth's doors only those that are used are open. An address is how records name a person, so
nobody changes their own; and an admin makes accounts, so nobody confirms one.
"""

from __future__ import annotations

from typing import Any

from allauth.account import views as theirs
from django.urls import URLPattern, path, re_path
from django.views.decorators.http import require_http_methods
from django.views.generic import RedirectView

from omniweb.accounts import views

# Django's class views would take PUT for POST, and answer OPTIONS.
_form = require_http_methods(["GET", "POST"])


def _theirs(route: str, view: Any, name: str) -> URLPattern:
    pattern: URLPattern = path(route, _form(view), name=name)
    return pattern


# allauth looks for some doors by names of its own, whatever else they are called here.
urlpatterns = [
    path("sign-in/link/<str:secret>", views.link_view, name="sign_in_link"),
    _theirs("sign-in", theirs.login, "account_login"),
    _theirs("sign-in", theirs.login, "sign_in"),
    _theirs("sign-out", theirs.logout, "account_logout"),
    _theirs("sign-out", theirs.logout, "sign_out"),
    path("account", views.account_view, name="account"),
    _theirs("account/inactive/", theirs.account_inactive, "account_inactive"),
    _theirs("account/signup/", theirs.signup, "account_signup"),
    _theirs("account/email/", RedirectView.as_view(pattern_name="account"), "account_email"),
    _theirs("account/reauthenticate/", theirs.reauthenticate, "account_reauthenticate"),
    _theirs("account/password/change/", theirs.password_change, "account_change_password"),
    _theirs("account/password/set/", theirs.password_set, "account_set_password"),
    _theirs("account/password/reset/", theirs.password_reset, "account_reset_password"),
    _theirs(
        "account/password/reset/done/", theirs.password_reset_done, "account_reset_password_done"
    ),
    _theirs(
        "account/password/reset/key/done/",
        theirs.password_reset_from_key_done,
        "account_reset_password_from_key_done",
    ),
    re_path(
        r"^account/password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        _form(theirs.password_reset_from_key),
        name="account_reset_password_from_key",
    ),
]
