from skillopt_ci.ledger.records import UsageRecord, account_records
from skillopt_ci.model.types import Account, Usage
from skillopt_ci.report.words import account_json, account_rows, detailed, stage_gist, stage_rows

ACCOUNTS = account_records(
    {
        Account("target", "rollout"): Usage(4, 400, 40, cost_usd=0.5),
        Account("target", "selection"): Usage(2, 200, 20, cached_tokens=100, cost_usd=0.25),
        Account("judge", "judge"): Usage(1, 10, 1, reasoning_tokens=1, cost_usd=None),
    }
)


def test_each_role_is_followed_by_its_stages() -> None:
    assert tuple(account_rows(ACCOUNTS, UsageRecord(calls=7))) == (
        ("  judge", "1 call, 11 tokens, cost unknown (no price known) (1 of reasoning)"),
        ("  target", "6 calls, 660 tokens, cost $0.7500 (100 cached)"),
        ("    rollout", "4 calls, 440 tokens, cost $0.5000"),
        ("    selection", "2 calls, 220 tokens, cost $0.2500 (100 cached)"),
    )


def test_what_was_used_before_roles_were_told_apart_is_said() -> None:
    rows = dict(account_rows(ACCOUNTS, UsageRecord(calls=9)))
    assert rows["  earlier"] == "2 calls before roles were told apart"


def test_a_record_of_an_earlier_version_tells_its_stages() -> None:
    used = UsageRecord(calls=2, prompt_tokens=5)
    assert tuple(stage_rows((), used, {"rollout": used})) == (
        ("  rollout", "2 calls, 5 tokens, cost $0.00"),
    )
    assert stage_gist(()) == ""


def test_a_line_for_comments_names_calls_tokens_and_known_costs() -> None:
    assert stage_gist(ACCOUNTS) == (
        "judge 1 call, 11 tokens · rollout 4 calls, 440 tokens, $0.5000 · "
        "selection 2 calls, 220 tokens, $0.2500"
    )


def test_programs_get_all_numbers() -> None:
    first = account_json(ACCOUNTS)[0]
    assert (first["role"], first["stage"], first["calls"], first["cost_usd"]) == (
        "judge",
        "judge",
        1,
        None,
    )


def test_tokens_that_went_into_the_cache_are_told() -> None:
    assert detailed(Usage(1, 9, cache_write_tokens=9)).endswith("(9 written to the cache)")
