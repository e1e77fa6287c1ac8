"""`knowledge sync`: keep a source equal to its origin."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer
from pydantic import TypeAdapter

from app.cli import options
from app.cli.door import Door, open_door
from app.cli.execution import TenantOption, choose_target, json_option, program
from app.cli.output.progress import show_progress
from app.cli.output.text import flatten, list_reasons, print_json, remark
from app.cli.waiting import AssetWatch, wait_for_embeddings
from app.contract.assets import Asset, Upload
from app.contract.fields import Page, is_principal
from app.contract.sources import Accepted, ItemState, Manifest, SourceItem
from app.contract.sources import SourceStatus as CurrentSource
from app.contract.validation import UNSET
from app.errors import InvalidInput
from knowledge_client import assets, sources
from knowledge_client.exchange import Exchange
from knowledge_client.models import SourceStatus

if TYPE_CHECKING:
    from app.knowledge.sources.run import RunOptions, RunOutcome
    from app.origins.origin import Origin

T = TypeVar("T")
SETTLING = (0.1, 0.3, 1.0, 3.0)
"""Seconds between checks of a source whose items have all ended: its worker records that a moment later."""


@program.add(
    "knowledge sync handbook docs/ --tenant demo",
    "knowledge sync wiki https://example.com/wiki.git --ref main --tenant demo",
    "knowledge sync reports s3://company/reports --exclude '*.tmp' --tenant demo",
    "knowledge sync staff staff/ --writer user:crawler --readers-of 'hr/*=group:hr' --tenant demo",
)
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
            "--exclude", metavar="PATTERN", help="Leave out paths like 'drafts/*' or '*.tmp'; may be repeated."
        ),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Tag for the files that this run uploads; may be repeated."),
    ] = None,
    roles: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="Audience of these files: pm, dev, qa or all.")
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
        bool, typer.Option("--confirm-deletions", help="Delete more than KB_SOURCE_MAX_DELETIONS of the assets.")
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
    from app.knowledge.sources.run import RunOptions
    from app.origins import choose_origin

    target = choose_target(tenant)
    place = choose_origin(origin, ref, exclude or [])
    wanted = RunOptions(
        confirm_deletions=confirm_deletions,
        allow_empty=allow_empty,
        retry=retry,
        tags=tags or UNSET,
        roles=roles or UNSET,  # type: ignore[arg-type]  # checked by Upload
        readers=options.read_principals(readers),
        writers=options.read_principals(writers),
        readers_of=[_read_pattern(each) for each in readers_of or ()],
    )
    with open_door(target, works=True) as door:
        outcome, status = _sync(door, name, place, wanted)
    if as_json:
        print_json(
            {
                "source": door.read_answer(),
                **{n: getattr(outcome.accepted, n) for n in ("added", "changed", "moved", "removed")},
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


def _read_pattern(given: str) -> tuple[str, Sequence[str]]:
    """A pattern of paths and its readers. Raises InvalidInput."""
    pattern, mark, principals = given.rpartition("=")
    if not mark or not pattern or not all(map(is_principal, principals.split(","))):
        raise InvalidInput.of(
            "--readers-of", "must be PATTERN=PRINCIPAL,PRINCIPAL with principals such as group:NAME and user:SUB"
        )
    return pattern, principals.split(",")


def _sync(door: Door, name: str, origin: Origin, wanted: RunOptions) -> tuple[RunOutcome, SourceStatus]:
    from app.knowledge.sources.run import SourceRun

    run = SourceRun(_Sources(door), max_bytes=door.upload_limit)
    outcome = asyncio.run(run.run(UUID(int=0), name, origin, wanted))  # the door has the tenant
    watch = AssetWatch(door)
    watch.waiting |= outcome.waiting
    total = len(outcome.waiting)
    with show_progress("files", total) as report:
        watch.finish(lambda: report(total - len(watch.waiting)))
    outcome.failed += watch.failed
    wait_for_embeddings(door)
    return outcome, _settle(door, name)


def _settle(door: Door, name: str) -> SourceStatus:
    """The source once it has recorded whether it agrees with its origin."""
    for seconds in SETTLING:
        found = door.run(sources.get_source(name))
        if found.agrees or found.pending or found.missing:
            return found
        time.sleep(seconds)
    return door.run(sources.get_source(name))


class _Sources:
    """The sources behind a door, for a run, which does one thing at a time."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.max_deletions = door.max_deletions

    def _read(self, kind: type[T], exchange: Exchange[Any]) -> T:
        self._door.run(exchange)
        return TypeAdapter(kind).validate_json(self._door.answer)

    async def accept(self, tenant_id: UUID, name: str, manifest: Manifest, *, actor: str = "") -> tuple[Accepted, bool]:
        given = ((field, getattr(manifest, field.name)) for field in fields(manifest))
        body: dict[str, Any] = {field.name: value for field, value in given if value != field.default}
        body["items"] = [
            {n: value for n, value in asdict(item).items() if value is not None} for item in manifest.items
        ]
        return self._read(Accepted, sources.put_source(name, **body)), self._door.status == 201

    async def get(self, tenant_id: UUID, name: str) -> CurrentSource:
        return self._read(CurrentSource, sources.get_source(name))

    async def list_items(
        self, tenant_id: UUID, name: str, *, state: ItemState | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[SourceItem]:
        return self._read(Page[SourceItem], sources.list_source_items(name, state=state, limit=limit, cursor=cursor))

    async def upload(
        self, tenant_id: UUID, source: str, run: int, upload: Upload, *, actor: str = ""
    ) -> tuple[Asset, bool]:
        lists: dict[str, Any] = {n: getattr(upload, n) for n in ("tags", "roles") if getattr(upload, n) is not UNSET}
        exchange = assets.upload_asset(
            upload.data,
            name=upload.name,
            media_type="application/octet-stream",
            external_id=upload.external_id,
            source=source,
            run=run,
            **lists,
        )
        return self._read(Asset, exchange), self._door.status == 202


def _describe(outcome: RunOutcome, status: SourceStatus) -> None:
    accepted = outcome.accepted
    typer.echo(
        f"{status.items} {'file' if status.items == 1 else 'files'}: {accepted.added} new, {accepted.changed} changed,"
        f" {accepted.moved} moved, {accepted.removed} removed; {len(outcome.skipped)} left out,"
        f" {status.refused} refused, {status.failed} failed"
    )
    for pattern in outcome.unmatched:
        remark(f"--readers-of: {flatten(pattern)} matches no file")
    list_reasons("refused", outcome.refused)
    list_reasons("failed", outcome.failed)
    if status.agrees and status.agreed_at is not None:
        typer.echo(f"{status.name} agrees with its origin as of {status.agreed_at:%Y-%m-%d %H:%M:%S} UTC")
    else:
        last = "never" if status.agreed_at is None else f"last at {status.agreed_at:%Y-%m-%d %H:%M:%S} UTC"
        remark(f"{status.name} does not agree with its origin ({last}); run the same command again")
