"""The actions in the audit trail, as its page names them."""

from __future__ import annotations

from collections.abc import Mapping

ACTIONS: Mapping[str, str] = {
    "access": "request without the role for it",
    "access.all": "request that ignores readers and writers",
    "access.read": "readers looked up",
    "asset.delete": "document deleted",
    "asset.retry": "document processed again",
    "asset.update": "document changed",
    "asset.upload": "document uploaded",
    "audit.read": "audit trail read",
    "entry.delete": "entry deleted",
    "entry.purge": "expired entries removed",
    "entry.update": "entry changed",
    "entry.write": "entry stored",
    "erasure.create": "erasure",
    "erasure.read": "erasure read",
    "feedback.read": "feedback read",
    "feedback.write": "feedback given",
    "model.drop": "vectors of a model removed",
    "model.pace": "pace of a model change set",
    "model.read": "model change read",
    "model.reembed": "model change or rebuild started",
    "model.switch": "model switched",
    "quarantine.read": "quarantine read",
    "quarantine.release": "quarantine released",
    "saved_search.delete": "saved search deleted",
    "saved_search.write": "search saved",
    "search.read": "receipts of searches read",
    "settings.read": "settings read",
    "settings.tune": "weights tuned by feedback",
    "settings.update": "settings changed",
    "source.delete": "source deleted",
    "source.write": "source listed",
    "stats.read": "statistics read",
    "subscription.confirm": "subscription confirmed",
    "subscription.delete": "subscription ended",
    "subscription.list": "subscriptions read",
    "subscription.write": "subscription stored",
    "tenant.export": "tenant exported",
    "tenant.import": "entries imported",
    "token.list": "revoked tokens read",
    "token.revoke": "token revoked",
}


def name_action(action: str) -> str:
    """The name of an action; that of an unknown one is its text."""
    return ACTIONS.get(action, action)
