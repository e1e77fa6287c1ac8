"""One mutation: the removal of a protection, and the guards that must notice it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """The removal of one protection.

    Attributes:
        noticed_by: every guard that must see it: "gate", "matrix", "attacks".
        places: tables and partitions on which the matrix is tried.
        function: the function that is attacked.
        named: text of the fault that the gate must report.
    """

    name: str
    sql: str
    noticed_by: frozenset[str]
    places: tuple[str, ...] = ()
    function: str | None = None
    named: str = ""


def gate(name: str, sql: str, named: str = "") -> Mutation:
    """A mutation that changes nothing for the rows that the service sees today, but gives it more rights."""
    return Mutation(name, sql, frozenset({"gate"}), named=named)


def both(name: str, sql: str, *places: str) -> Mutation:
    """A mutation that shows rows of other tenants, or hides the tenant's own."""
    return Mutation(name, sql, frozenset({"gate", "matrix"}), places)


def unfiltered(function: str, condition: str, replacement: str = "true") -> Mutation:
    """A definer function without its condition on the tenant."""
    sql = f"""do $do$
declare source text := pg_get_functiondef('{function}'::regproc);
begin
  if position($${condition}$$ in source) = 0 then raise exception 'nothing to replace'; end if;
  execute replace(source, $${condition}$$, $${replacement}$$);
end $do$"""
    return Mutation(
        f"{function} without {condition}",
        sql,
        frozenset({"gate", "attacks"}),
        function=function,
        named=f"function {function}(",
    )


def function_body(name: str, body: str, volatility: str = "stable") -> Mutation:
    sql = f"create or replace function current_tenant() returns uuid language sql {volatility} return {body}"
    return gate(name, sql)
