"""For property tests: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# By default an example that takes 200 ms, or data that is slow to make, fails the test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
