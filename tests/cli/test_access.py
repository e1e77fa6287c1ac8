"""`knowledge access` shows and changes permissions."""

from __future__ import annotations

from tests.cli.conftest import CommandLine


def test_permissions_are_changed_and_shown(knowledge: CommandLine, tenant: str) -> None:
    for n in range(2):
        knowledge.succeed("add", f"Payroll {n}", "--tag", "payroll", "-t", tenant)
    knowledge.succeed("add", "For me", "--reader", "user:jane", "--writer", "user:jane", "-t", tenant)
    made = knowledge.succeed("access", "set", "group:finance", "--tag", "payroll", "-t", tenant)
    assert made.out == "2 found, 2 changed, 0 refused\n"
    grant = ("access", "grant", "user:jane", "--tag", "payroll", "-t", tenant)
    assert knowledge.succeed(*grant, "--dry-run").out == "2 found, 2 would be changed, 0 refused\n"
    assert knowledge.succeed(*grant, "--json").json == {"matched": 2, "changed": 2, "refused": []}
    writers = knowledge.succeed("access", "grant", "group:hr", "--write", "--tag", "payroll", "-t", tenant)
    assert writers.out == "2 found, 0 changed, 0 refused\n"  # all creators may already
    subject = knowledge.succeed("access", "show", "--subject", "jane", "-t", tenant)
    assert "jane (no groups; has not called in the last 90 days)\n  entries  3 of 3\n" in subject.out
    found = knowledge.succeed("access", "show", "--subject", "x", "--group", "finance", "-t", tenant, "--json").json
    assert (found["readable"]["entries"], found["groups_from"]) == (2, "request")
    item = knowledge.succeed("access", "show", found["items"][0]["id"], "-t", tenant)
    assert "readers  group:finance, user:jane\n  writers  all creators among them\n" in item.out
    refused = knowledge("access", "revoke", "user:jane", "--principal", "user:jane", "-t", tenant)
    assert (refused.status, refused.out) == (1, "3 found, 2 changed, 1 refused\n")
    assert "would be empty" in refused.err
    assert knowledge.succeed("access", "set", "all", "--principal", "group:finance", "-t", tenant).out.startswith(
        "2 found, 2 changed"
    )


def test_wrong_changes_are_refused(knowledge: CommandLine, tenant: str) -> None:
    for arguments, status, reason in (
        (("grant", "group:a"), 2, "one of --id, --tag, --type, --filter and --principal is required"),
        (("grant", "jane", "--tag", "a"), 2, "PRINCIPAL: each must be group:NAME or user:SUB"),
        (("set", "all", "group:a", "--tag", "a"), 2, "(or all, and no other)"),
        (("grant", "all", "--tag", "a"), 2, "group:NAME"),
        (("show",), 2, "give either an ID, --source or --subject"),
        (("show", "--subject", "jane", "--source", "a"), 2, "give either an ID, --source or --subject"),
        (("show", "01890000-0000-7000-8000-000000000000"), 1, "there is no entry or asset"),
        (("show", "--source", "none"), 1, "there is no source"),
    ):
        failed = knowledge("access", *arguments, "-t", tenant)
        assert (failed.status, failed.out) == (status, "")
        assert reason in failed.err
