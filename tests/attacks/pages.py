"""Every page there is: who may open it, who may post to it, and what its address names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver, reverse

from approvals.models import Decision, Grant, Scope
from approvals.over import Over
from approvals.services.policies import policy_create, version_create
from approvals.services.shadows import shadow_start
from approvals.services.simulations import simulation_start
from omniweb.accounts.models import ApiToken
from omniweb.accounts.permissions import Action, system
from omniweb.accounts.services import token_create
from omniweb.core.errors import ProviderUnavailable
from omniweb.core.problems import API_PREFIXES
from sandboxes.models import Environment
from sandboxes.services.circuits import circuit_failed
from sandboxes.services.prices import price_set
from sandboxes.services.secrets import secret_create
from tests.factories import OPEN_POLICY, ask, policy_use, request_of, run_ready, vote, work
from tests.people import People

ASKS_ALL = 'name: plain\nrules: {ask: [{rule_id: ask_all, capability: "*"}]}\n'
V, C, A = Action.VIEW, Action.CONFIGURE, Action.ADMINISTER


@dataclass(frozen=True)
class Page:
    """A page by the name of its address.

    `get` and `post` are what someone must be allowed for it, None where there is no such method;
    `on` is what the address names, `path` is what else is in it, `query` what it needs to be asked.
    """

    name: str
    get: Action | None = None
    post: Action | None = None
    on: str = ""
    path: dict[str, Any] = field(default_factory=dict)
    query: str = ""

    def url(self, owned: dict[str, Any]) -> str:
        """Return the address on what a team owns."""
        named = {"ref": owned[self.on]} if self.on else {}
        also = {name: owned.get(value, value) for name, value in self.path.items()}
        return reverse(self.name, kwargs=named | also) + self.query

    def allows(self, method: str) -> Action | None:
        """Return what the method needs, None when the page does not have it."""
        return {"GET": self.get, "POST": self.post}.get(method)


SIGNED_IN = [
    Page("overview", V),
    Page("audit", V),
    Page("audit_verify", post=Action.RECORD_AUDIT),
    Page("people", A, A),
    Page("demo", post=C),
    Page("account", V),
    Page("inbox", V),
    Page("inbox_count", V),
    Page("request", V, on="request"),
    # Who may vote is said on the card, so a viewer sees why not: the service refuses.
    Page("request_decide", post=V, on="request"),
    Page("policies", V),
    Page("policy_new", C, C),
    Page("policy_check", post=C),
    Page("policy_vocabulary", V),
    Page("policy", V, on="policy"),
    Page("version_new", C, C, on="policy"),
    Page("policy_diff", V, on="policy"),
    Page("version_export", V, on="policy", path={"number": 1}),
    Page("policy_version", V, on="policy", path={"number": 1}),
    Page("version_activate", post=C, on="policy", path={"number": 1}),
    Page("policy_explain", V, V, on="policy"),
    Page("policy_rule", V, on="policy", path={"rule_id": "ask_all"}),
    # From here on its author no longer activates it, and then it is archived for a moment.
    Page("policy_second_person", post=C, on="policy"),
    Page("policy_archive", post=C, on="policy"),
    Page("policy_restore", post=C, on="policy"),
    Page("shadow_start", post=C, on="policy"),
    Page("shadow", V, on="shadow"),
    Page("shadow_end", post=C, on="shadow"),
    Page("policy_suggest", C, C, on="policy"),
    Page("policy_try", C, C, on="policy"),
    Page("simulation", V, on="simulation"),
    Page("simulation_cancel", post=C, on="simulation"),
    Page("decision", V, on="decision"),
    Page("grants", V),
    Page("grant_revoke", post=Action.REQUEST_DECIDE, on="grant"),
    Page("runs", V),
    Page("run", V, on="run"),
    Page("run_end", post=Action.RUN_END, on="run"),
    Page("run_trajectory", V, on="run"),
    Page("environments", V),
    Page("environment_new", C, C, query="?provider=local"),
    Page("environment_check", post=C, query="?provider=local"),
    Page("environment", V, on="environment"),
    Page("environment_edit", C, C, on="environment"),
    Page("environment_switch", post=C, on="environment"),
    Page("environment_test", post=C, on="environment"),
    Page("environment_here", V, on="environment"),
    Page("secrets", V),
    Page("secret_new", C, C),
    Page("secret", V, on="secret"),
    Page("secret_replace", post=C, on="secret"),
    Page("secret_archive", post=C, on="secret"),
    Page("providers", V),
    Page("provider_here", V, path={"name": "local"}),
    Page("sandboxes", V),
    Page("sandbox", V, on="sandbox"),
    Page("sandbox_pause", post=Action.RUN_END, on="sandbox"),
    Page("sandbox_wake", post=Action.RUN_END, on="sandbox"),
    Page("sandbox_end", post=Action.RUN_END, on="sandbox"),
    Page("environment_test_cancel", post=C, on="environment"),
    Page("capacity", post=C, on="environment"),
    Page("price_set", post=C),
    Page("price_remove", post=C, on="price"),
    Page("circuit_close", post=C, on="circuit"),
    Page("agents", V),
    Page("agent_new", C, C),
    Page("agent", V, on="agent"),
    Page("agent_profile", post=C, on="agent"),
    Page("agent_connect", C, C, on="agent"),
    Page("token_revoke", post=C, on="agent", path={"token": "token"}),
    Page("trajectory_steps", V, on="trajectory"),
    Page("trajectory_step", V, on="trajectory", path={"seq": 1}),
    Page("trajectory_blob", V, on="trajectory", path={"digest": "digest"}),
    Page("trajectory_verify", post=V, on="trajectory"),
    Page("trajectory_annotations", post=Action.RECORD_AUDIT, on="trajectory"),
]

# Open to everyone, each with what it answers to someone who is signed out, by method.
PUBLIC: dict[str, tuple[str, dict[str, int]]] = {
    "health_live": ("/health/live", {"GET": 200}),
    "health_ready": ("/health/ready", {"GET": 200}),
    "sign_in": ("/sign-in", {"GET": 200, "POST": 200}),
    "account_login": ("/sign-in", {"GET": 200, "POST": 200}),
    "sign_out": ("/sign-out", {"GET": 302, "POST": 302}),
    "account_logout": ("/sign-out", {"GET": 302, "POST": 302}),
    "sign_in_link": ("/sign-in/link/unknown", {"GET": 200, "POST": 401}),
    "account_inactive": ("/account/inactive/", {"GET": 200, "POST": 405}),
    "account_signup": ("/account/signup/", {"GET": 200, "POST": 200}),
    "account_email": ("/account/email/", {"GET": 302, "POST": 302}),
    "account_reauthenticate": ("/account/reauthenticate/", {"GET": 302, "POST": 302}),
    "account_change_password": ("/account/password/change/", {"GET": 302, "POST": 302}),
    "account_set_password": ("/account/password/set/", {"GET": 302, "POST": 302}),
    "account_reset_password": ("/account/password/reset/", {"GET": 200, "POST": 200}),
    "account_reset_password_done": ("/account/password/reset/done/", {"GET": 200, "POST": 405}),
    "account_reset_password_from_key_done": (
        "/account/password/reset/key/done/",
        {"GET": 200, "POST": 405},
    ),
    "account_reset_password_from_key": (
        "/account/password/reset/key/1-unknown/",
        {"GET": 200, "POST": 200},
    ),
}


def names(patterns: list[Any] | None = None, before: str = "/") -> Iterator[str]:
    """Yield the name of every address that is not below an API."""
    for one in get_resolver().url_patterns if patterns is None else patterns:
        route = before + str(one.pattern).removeprefix("^")
        if route.startswith(API_PREFIXES):
            continue
        if isinstance(one, URLResolver):
            yield from names(one.url_patterns, route)
        elif isinstance(one, URLPattern):
            yield one.name or route


def owned_by(people: People) -> dict[str, Any]:
    """Make one of everything in a team; return what addresses call each."""
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver)
    done = work(ask(people.agent, run, "echo harbour"))
    granted = ask(people.agent, run, "git push --dry-run")
    vote(people.approver, request_of(granted), scope=Scope.RUN)
    waiting = ask(people.agent, run, "git push")
    token_create(actor=system(people.team), agent=people.agent.agent)
    policy = policy_create(actor=people.operator, name="plain", source=ASKS_ALL)
    simulation = simulation_start(
        actor=people.operator, policy=policy, version=policy.versions.get(number=1), over=Over()
    )
    shadow = shadow_start(
        actor=people.operator,
        policy=policy,
        version=version_create(
            actor=people.operator, policy=policy, source=ASKS_ALL, activate=False
        ),
        hours=1,
    )
    assert done.stdout is not None
    assert people.agent.agent is not None
    return {
        "run": run.ref,
        "sandbox": run.sandboxes.get().ref,
        "price": price_set(
            actor=people.operator, provider="local", per_hour=Decimal(1), currency="EUR"
        ).ref,
        "circuit": circuit_failed(run=run, error=ProviderUnavailable("nobody is there")).ref,
        "trajectory": run.trajectory.ref,
        "digest": done.stdout.digest,
        "request": request_of(waiting).ref,
        "decision": Decision.objects.filter(subject_id=done.pk).get().ref,
        "grant": Grant.objects.get().ref,
        "policy": policy.ref,
        "simulation": simulation.ref,
        "shadow": shadow.ref,
        "environment": Environment.objects.get(team=people.team).ref,
        "secret": secret_create(actor=people.operator, name="TOKEN", value="hush-hush").ref,
        "agent": people.agent.agent.ref,
        "token": ApiToken.objects.get(agent=people.agent.agent).ref,
    }
