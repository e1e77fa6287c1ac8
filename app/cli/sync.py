"""`knowledge sync`: keep a source equal to its origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.calls import open_knowledge
from app.cli.execution import ACTOR, Target, TenantOption, choose_target, examples, json_option, run_async
from app.cli.fields import read_pattern, read_principals
from app.cli.output.progress import show_progress
from app.cli.output.text import flatten, print_json, remark

if TYPE_CHECKING:
    from app.contract.sources import SourceStatus
    from app.knowledge.sources.run import RunOptions, RunOutcome
    from app.origins.origin import Origin

MOST_REASONS = 10


def register(app: typer.Typer) -> None:
    """Add the command `sync`."""
    app.command(
        short_help="Keep the files of a folder, a repository or a store equal here.",
        epilog=examples(
            "knowledge sync handbook docs/ --tenant demo",
            "knowledge sync wiki https://example.com/wiki.git --ref main --tenant demo",
            "knowledge sync reports s3://company/reports --exclude '*.tmp' --tenant demo",
            "knowledge sync staff staff/ --writer user:crawler --readers-of 'hr/*=group:hr' --tenant demo",
        ),
    )(sync)


def sync(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the source.")],
    origin: Annotated[
        str,
        typer.Argument(
            metavar="ORIGIN", help="A folder, a git repository (path or URL), or a URL that fsspec reaches."
        ),
    ],
    tenant: TenantOption,
    ref: Annotated[
        str | None,
        typer.Option("--ref", metavar="REF", help="A branch, tag or commit; ORIGIN is then a git repository."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="PATTERN",
            help="Leave out paths like 'drafts/*' or '*.tmp'; may be repeated.",
        ),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Tag for the files that this run uploads; may be repeated."),
    ] = None,
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE", help="Audience of these files: pm, dev, qa or all."),
    ] = None,
    readers: Annotated[
        list[str] | None,
        typer.Option(
            "--reader",
            metavar="PRINCIPAL",
            help="Who may read the source's files: group:NAME or user:SUB, may be repeated; all: all readers.",
        ),
    ] = None,
    writers: Annotated[
        list[str] | None,
        typer.Option(
            "--writer",
            metavar="PRINCIPAL",
            help="Who may sync the source, and sees all of it; may be repeated; all: all creators.",
        ),
    ] = None,
    readers_of: Annotated[
        list[str] | None,
        typer.Option(
            "--readers-of",
            metavar="PATTERN=PRINCIPAL,…",
            help="Who may read the files with paths like 'hr/*', instead; may be repeated, the last one that fits"
            " counts. Needs --writer.",
        ),
    ] = None,
    confirm_deletions: Annotated[
        bool,
        typer.Option("--confirm-deletions", help="Delete more than KB_SOURCE_MAX_DELETIONS of the assets."),
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Delete all assets if the origin has no files.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry-failed", help="Try unchanged files again that were refused or failed.")
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "{source, added, changed, moved, removed, skipped, refused, failed, unmatched}; skipped, refused and"
            " failed are lists of {path, reason}, of the files of this run; source counts all that are refused or"
            " failed; unmatched are patterns of --readers-of"
        ),
    ] = False,
) -> None:
    """Make a source have the files of its origin, and wait until they are searchable.

    New files are added, changed files are replaced, files that no longer exist are removed, and moved files keep
    their ids. If the origin cannot be listed completely, nothing is changed. A run that would remove more
    than a fifth of the assets stops and asks for --confirm-deletions; so does one whose new files would be refused
    in the place of as many. After Ctrl-C, the same command resumes.

    Hidden files, links and submodules are left out; .gitignore is not read for folders. A git repository is read at
    its commit, with the program git. Other URLs, such as s3:// and https://, need the extra 'sources'.
    The exit status is 1 if a file could not be read; refused files, such as empty ones, do not count.
    """
    from app.contract.validation import UNSET
    from app.knowledge.sources.run import RunOptions
    from app.origins import choose_origin

    target = choose_target(tenant)
    place = choose_origin(origin, ref, exclude or [])
    outcome, status = run_async(
        _sync(
            target,
            name,
            place,
            RunOptions(
                confirm_deletions=confirm_deletions,
                allow_empty=allow_empty,
                retry=retry,
                tags=tags or UNSET,
                roles=roles or UNSET,  # type: ignore[arg-type]  # checked by Upload
                readers=read_principals(readers),
                writers=read_principals(writers),
                readers_of=[read_pattern(each) for each in readers_of or ()],
                actor=ACTOR,
            ),
        )
    )
    if as_json:
        accepted = outcome.accepted
        print_json(
            {
                "source": asdict(status),
                **{n: getattr(accepted, n) for n in ("added", "changed", "moved", "removed")},
                **{
                    n: [{"path": path, "reason": reason} for path, reason in getattr(outcome, n)]
                    for n in ("skipped", "refused", "failed")
                },
                "unmatched": outcome.unmatched,
            }
        )
    else:
        _describe(outcome, status)
    if outcome.failed or not status.agrees:
        raise typer.Exit(1)


async def _sync(target: Target, name: str, origin: Origin, options: RunOptions) -> tuple[RunOutcome, SourceStatus]:
    from app.cli.waiting import AssetWatch, wait_for_embeddings
    from app.knowledge.sources.run import SourceRun

    async with open_knowledge(target, works=True) as (services, tenant_id):
        run = SourceRun(services.sources, services.source_uploads, max_bytes=services.assets.max_bytes)
        watch = AssetWatch(services, tenant_id)
        outcome = await run.run(tenant_id, name, origin, options)
        watch.waiting |= outcome.waiting
        total = len(outcome.waiting)
        with show_progress("files", total) as report:
            await watch.finish(lambda: report(total - len(watch.waiting)))
        outcome.failed += watch.failed
        await wait_for_embeddings(services, tenant_id)
        return outcome, await services.sources.wait_until_indexed(tenant_id, name)


def _describe(outcome: RunOutcome, status: SourceStatus) -> None:
    accepted = outcome.accepted
    typer.echo(
        f"{status.items} {'file' if status.items == 1 else 'files'}: {accepted.added} new, {accepted.changed} changed,"
        f" {accepted.moved} moved, {accepted.removed} removed; {len(outcome.skipped)} left out,"
        f" {status.refused} refused, {status.failed} failed"
    )
    for pattern in outcome.unmatched:
        remark(f"--readers-of: {flatten(pattern)} matches no file")
    _list_reasons("refused", outcome.refused)
    _list_reasons("failed", outcome.failed)
    if status.agrees and status.agreed_at is not None:
        typer.echo(f"{status.name} agrees with its origin as of {status.agreed_at:%Y-%m-%d %H:%M:%S} UTC")
    else:
        last = "never" if status.agreed_at is None else f"last at {status.agreed_at:%Y-%m-%d %H:%M:%S} UTC"
        remark(f"{status.name} does not agree with its origin ({last}); run the same command again")


def _list_reasons(label: str, reasons: Sequence[tuple[str, str]]) -> None:
    for path, reason in reasons[:MOST_REASONS]:
        remark(f"{label}: {flatten(path)}: {flatten(reason)}")
    if len(reasons) > MOST_REASONS:
        remark(f"{label}: and {len(reasons) - MOST_REASONS} more")
