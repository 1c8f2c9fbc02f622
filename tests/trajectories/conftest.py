"""What these tests start from."""

from __future__ import annotations

import pytest

from omniweb.accounts.models import Team
from tests.trajectories.build import record
from trajectories.models import Trajectory


@pytest.fixture
def team(db: None) -> Team:
    """A team."""
    return Team.objects.create(name="Harbour")


@pytest.fixture
def trajectory(team: Team) -> Trajectory:
    """A record that has just been opened."""
    return record(team)
