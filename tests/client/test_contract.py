"""The client against the service's own description: the client covers every answer and every request field."""

from __future__ import annotations

import inspect
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel

from app.main import create_app
from app.settings import Settings
from knowledge_client import (
    AsyncKnowledgeClient,
    KnowledgeClient,
    fields,
    models,
    parts,
    permissions,
    records,
    tenancy,
)

SCHEMAS: dict[str, Any] = create_app(Settings()).openapi()["components"]["schemas"]

ANSWERS: dict[str, type[BaseModel]] = {
    "Entry": models.Entry,
    "RelatedEntry": models.RelatedEntry,
    "Hit": models.Hit,
    "SearchMetadata": models.SearchMetadata,
    "SearchResponse": models.SearchResult,
    "Passage": parts.Passage,
    "PassageGroup": parts.PassageGroup,
    "Validity": parts.Validity,
    "Facet": parts.Facet,
    "FacetValue": parts.FacetValue,
    "SearchOutcome": models.SearchOutcome,
    "WhyNotResponse": models.WhyNot,
    "Reason": models.Reason,
    "BulkResult": models.BulkResult,
    "Asset": models.Asset,
    "HitOrigin": parts.HitOrigin,
    "Source": parts.Source,
    "SourceStatus": parts.SourceStatus,
    "Accepted": parts.AcceptedManifest,
    "SourceItem": parts.SourceItem,
    "SourceList": parts.SourcePage,
    "SourceItemList": parts.SourceItemPage,
    "SavedSearch": models.SavedSearch,
    "SubscriptionWithSecret": models.Subscription,
    "Feedback": models.Feedback,
    "Problem": models.Problem,
    "FieldProblem": models.FieldProblem,
    "EntryList": models.EntryPage,
    "TagList": models.TagPage,
    "Tag": models.TagCount,
    "AssetList": models.AssetPage,
    "SavedSearchList": models.SavedSearchPage,
    "Version": records.Version,
    "VersionList": records.VersionPage,
    "Place": records.ErasedPlace,
    "Dependent": records.Dependent,
    "Remainder": records.Remainder,
    "Erasure": records.Erasure,
    "ErasureList": records.ErasurePage,
    "Refused": permissions.RefusedItem,
    "ChangedAccess": permissions.ChangedAccess,
    "PassingCaller": permissions.PassingCaller,
    "ItemReaders": permissions.ItemReaders,
    "ItemAccess": permissions.ItemAccess,
    "Counts": permissions.ItemCounts,
    "SubjectAccess": permissions.SubjectAccess,
    "RankedEntry": records.RankedEntry,
    "Difference": records.Difference,
    "Replay": records.Replay,
    "Stats": tenancy.Statistics,
    "Settings": tenancy.TenantSettings,
    "AuditRecord": tenancy.AuditRecord,
    "SearchReceipt": tenancy.SearchReceipt,
    "FeedbackReport": tenancy.FeedbackReport,
    "EmptySearch": tenancy.EmptySearch,
    "DislikedEntry": tenancy.DislikedEntry,
    "RevokedToken": tenancy.RevokedToken,
    "ModelChange": tenancy.ModelChange,
    "ModelInfo": tenancy.ModelName,
    "Tenant": tenancy.Tenant,
    "TenantList": tenancy.TenantPage,
    "TenantLimits": tenancy.TenantLimits,
}
REQUESTS: dict[str, type] = {
    "SearchRequest": fields.SearchRequest,
    "NewEntry": fields.NewEntry,
    "EntryPatch": fields.EntryChanges,
    "Weights": fields.Weights,
    "ListChangeBody": fields.ListChange,
    "Where": fields.AccessSelection,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_has_the_fields_that_the_service_describes(name: str) -> None:
    described, known = set(SCHEMAS[name]["properties"]), set(ANSWERS[name].model_fields)
    assert described == known


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_has_the_fields_that_the_service_accepts(name: str) -> None:
    assert set(get_type_hints(REQUESTS[name])) == set(SCHEMAS[name]["properties"])


def test_both_clients_have_the_same_documented_calls() -> None:
    def calls(client: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(member, follow_wrapped=True)
            for name, member in vars(client).items()
            if hasattr(member, "__wrapped__")
        }

    assert calls(KnowledgeClient) == calls(AsyncKnowledgeClient)
    assert len(calls(KnowledgeClient)) > 25
    assert all(inspect.getdoc(getattr(KnowledgeClient, name)) for name in calls(KnowledgeClient))


@pytest.mark.slow
def test_the_package_builds_with_its_types_and_few_dependencies(tmp_path: Path) -> None:
    folder = Path(models.__file__).parents[1]
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path, folder], check=True)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("METADATA"))
    assert {"knowledge_client/py.typed", "knowledge_client/langchain/vectorstore.py"} <= set(names)
    assert all(name.startswith("knowledge_client") for name in names)
    needs = message_from_string(metadata).get_all("Requires-Dist")
    assert needs == [
        "httpx>=0.28",
        "pydantic>=2.10",
        "langchain-core>=1.0; extra == 'langchain'",
        "llama-index-core>=0.14; extra == 'llamaindex'",
    ]


def test_the_package_needs_neither_the_service_nor_langchain() -> None:
    code = """
import sys, knowledge_client
names = {module.partition(".")[0] for module in sys.modules}
unwanted = names & {"app", "fastapi", "sqlalchemy", "langchain_core", "orjson", "numpy"}
sys.exit(" ".join(unwanted) or 0)
"""
    folder = Path(models.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
