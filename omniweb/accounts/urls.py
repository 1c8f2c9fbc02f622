"""Paths of signing in and out."""

from __future__ import annotations

from allauth.account import views as allauth_views
from django.urls import include, path

from omniweb.accounts import views

urlpatterns = [
    path("sign-in/link/<str:secret>", views.link_view, name="sign_in_link"),
    path("sign-in", allauth_views.login, name="sign_in"),
    path("sign-out", allauth_views.logout, name="sign_out"),
    path("account", views.account_view, name="account"),
    path("account/", include("allauth.account.urls")),
]
