import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from skillopt_ci.ledger.evidence import booked
from skillopt_ci.ledger.records import BoundaryRecord, State
from skillopt_ci.model.types import Account, Usage, by_role, by_stage, total

ACCOUNTS = {
    Account("optimizer", "analyst"): Usage(1, 100, 10, cost_usd=None),
    Account("judge", "judge"): Usage(2, 20, 2, cost_usd=0.5),
    Account("target", "rollout"): Usage(4, 40, 4, cost_usd=0.25),
    Account("target", "selection"): Usage(8, 80, 8, cost_usd=0.25),
}
COUNTS = st.integers(0, 10**9)
USAGES = st.builds(
    Usage,
    *[COUNTS] * 5,
    cost_usd=st.none() | st.floats(0, 10**6),
    estimated=st.booleans(),
    cache_write_tokens=COUNTS,
)


def test_usage_is_told_by_role_and_by_stage():
    calls = {role: one.calls for role, one in by_role(ACCOUNTS).items()}
    assert calls == {"judge": 2, "optimizer": 1, "target": 12}
    assert by_role(ACCOUNTS)["target"].cost_usd == 0.5
    assert list(by_stage(ACCOUNTS)) == ["analyst", "judge", "rollout", "selection"]
    assert total(ACCOUNTS.values()).cost_usd is None


@given(USAGES, USAGES)
def test_sums_know_all_fields(one, other):
    both = one + other
    for name in ("calls", "cached_tokens", "reasoning_tokens", "cache_write_tokens", "tokens"):
        assert getattr(both, name) == getattr(one, name) + getattr(other, name)
    assert both.estimated == (one.estimated or other.estimated)
    assert (both.cost_usd is None) == (one.cost_usd is None or other.cost_usd is None)


@given(st.lists(USAGES, max_size=3))
def test_accounts_survive_their_record(usages):
    accounts = {Account("target", f"s{n}"): one for n, one in enumerate(usages)}
    texts = {"skill_before": "", "skill_after": "", "config_sha256": ""}
    record = BoundaryRecord(epoch=1, step=1, simulated=False, accounts=accounts, **texts)
    again = BoundaryRecord.model_validate_json(record.model_dump_json()).accounts
    assert again.keys() == accounts.keys()
    for account, usage in accounts.items():
        assert again[account].tokens == usage.tokens
        assert again[account].cost_usd == pytest.approx(usage.cost_usd, abs=1e-9)


def test_accounts_of_the_same_role_and_stage_are_joined():
    twice = booked(booked(ACCOUNTS), booked(ACCOUNTS))
    assert (len(twice), twice[Account("target", "rollout")].calls) == (len(ACCOUNTS), 8)
    old = '{"calls":1,"prompt_tokens":2,"completion_tokens":3,"cached_tokens":0,'
    old += '"reasoning_tokens":0,"cost_usd":null,"estimated":true}'
    assert TypeAdapter(Usage).validate_json(old).tokens == 5
    assert not State.model_fields["accounts"].is_required()


@pytest.mark.parametrize(
    "bad", ['{"calls": -1}', '{"calls": "1"}', '{"cost_usd": -0.1}', '{"dollars": 1}']
)
def test_usage_from_outside_is_checked(bad):
    with pytest.raises(ValidationError):
        TypeAdapter(Usage).validate_json(bad)
