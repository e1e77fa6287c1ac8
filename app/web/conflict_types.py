"""The types of problems of changes that contradict what is stored."""

from __future__ import annotations

from app import errors
from app.web.problem_type import ProblemType

CONFLICTS = (
    ProblemType(
        "entry-exists",
        409,
        "Another entry has the same external_id, or without one the same content.",
        "Change or delete the entry that existing_id names.",
        errors.EntryExists,
    ),
    ProblemType(
        "asset-exists",
        409,
        "With these readers, the asset would have the same external_id as another one, or without one the same bytes.",
        "Change or delete the asset that existing_id names.",
        errors.AssetExists,
    ),
    ProblemType(
        "part-of-asset",
        409,
        "The entry is a chunk of an asset, which determines its text, title, type and position.",
        "Change the title of the asset, upload a new version of it, or delete it.",
        errors.PartOfAsset,
    ),
    ProblemType(
        "concurrent-writes",
        409,
        "Other requests are writing the same item.",
        "Send the request again.",
        errors.ConcurrentWrites,
    ),
    ProblemType(
        "source-taken",
        409,
        "The name is that of a source that the caller may not see.",
        "Choose another name, or ask a tenant administrator to be one of the source's writers.",
        errors.SourceTaken,
    ),
    ProblemType(
        "run-superseded",
        409,
        "Another run of the source has sent a manifest since this one began.",
        "List the origin again, and send a manifest with the run that the source has now.",
        errors.RunSuperseded,
    ),
    ProblemType(
        "item-changed",
        409,
        "The source's last manifest does not list the file, or with another digest.",
        "List the origin again, and send a new manifest.",
        errors.ItemChanged,
    ),
    ProblemType(
        "too-many-deletions",
        409,
        "The manifest would delete more assets of the source than a run may; nothing was changed.",
        "Check the listing. If it is right, send it with confirm_deletions, or with allow_empty if it is empty.",
        errors.TooManyDeletions,
    ),
    ProblemType(
        "text-not-ready",
        409,
        "The asset has no text yet, or its text could not be extracted.",
        "Wait until its status is indexed; if it is failed, see its error.",
        errors.TextNotReady,
    ),
    ProblemType(
        "not-failed",
        409,
        "Only a failed asset can be retried.",
        "See the status of the asset.",
        errors.NotFailed,
    ),
    ProblemType(
        "tenant-exists", 409, "A tenant has this slug already.", "Choose another slug.", errors.TenantExists
    ),
    ProblemType(
        "maximum-reached",
        409,
        "The caller or the tenant has the maximum number of such items.",
        "Delete one first.",
        errors.MaximumReached,
    ),
    ProblemType(
        "model-change-conflict",
        409,
        "The state of the model change does not allow this step.",
        "See the detail and GET /admin/reembed; try again when the state has changed.",
        errors.ModelChangeConflict,
    ),
)
