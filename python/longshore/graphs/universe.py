"""Joins dimensions, relations and a query, and projects the joined rows to the dimensions of a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice, product
from math import prod
from operator import itemgetter

import msgspec

from longshore.errors import GraphError, Origin
from longshore.graphs.dimensions import Dimension, Relation, Row
from longshore.graphs.query import ColumnComparison, Condition


class Factor(msgspec.Struct, frozen=True):
    """Rows over some dimensions, and the names of their sources."""

    dimensions: tuple[str, ...]
    rows: list[Row]
    names: tuple[str, ...]


class _Component(msgspec.Struct, frozen=True):
    """Connected dimensions: no relation or condition links two components."""

    dimensions: tuple[str, ...]
    factors: tuple[Factor, ...]
    conditions: tuple[Condition, ...]
    """Those that no factor alone can decide."""


class Universe:
    """All combinations of values that satisfy the relations and the query.

    `limit` is the maximum number of rows in any step.

    Raises `GraphError` if no combination is left, or there are too many.
    """

    def __init__(
        self,
        dimensions: Mapping[str, Dimension],
        relations: Sequence[Relation],
        conditions: Sequence[Condition],
        *,
        limit: int,
        query_origin: Origin | None = None,
    ) -> None:
        self.dimensions = dimensions
        self.relations = relations
        self.limit = limit
        self.query_origin = query_origin
        self.codes: dict[str, list[int]] = self._allowed_codes(conditions)
        """Numbers of the values that the query lets pass, per dimension."""
        factors = [self._relation_factor(relation) for relation in relations]
        several = [condition for condition in conditions if len(condition.dimensions) > 1]
        factors += [self._equality_factor(condition.equality) for condition in several if condition.equality]
        undecided = [condition for condition in several if not condition.equality]
        factors = [self._apply_conditions(factor, undecided) for factor in factors]
        undecided = [
            each for each in undecided if not any(each.dimensions <= {*factor.dimensions} for factor in factors)
        ]
        self._components = self._split_components(factors, undecided)
        self._projections: dict[frozenset[str], Factor] = {}

    # ------------------------------------------------------------------------------------------------------ questions

    def count(self, dimensions: Collection[str]) -> int:
        """Number of rows of `rows`; a product is counted, not built."""
        return prod(len(part.rows) for part in self._project_components(dimensions))

    def rows(self, dimensions: Sequence[str], what: str, *, sample: int = 0) -> list[Row]:
        """Distinct combinations of values of some dimensions, sorted; `what` names their use in errors.

        `sample` limits their number; 0 does not.

        Raises `GraphError` if there are too many.
        """
        parts = list(self._project_components(dimensions))
        self._check_limit(prod(len(part.rows) for part in parts), what)
        if not parts:
            return [()]
        rows = parts[0].rows[:sample] if sample else parts[0].rows
        for part in parts[1:]:
            if sample:
                rows = list(islice((left + right for left in rows for right in part.rows), sample))
            else:
                rows = [left + right for left in rows for right in part.rows]
        rows = list(map(row_projection([name for part in parts for name in part.dimensions], dimensions), rows))
        rows.sort()
        return rows

    def refuse_empty(self) -> None:
        """Raise `GraphError` if dimensions that no task uses have no common values."""
        seen = {name for dimensions in self._projections for name in dimensions}
        for component in self._components:
            if seen.isdisjoint(component.dimensions):
                self._project(component, component.dimensions[:1])

    def _check_limit(self, count: int, what: str) -> None:
        if count > self.limit:
            raise too_many_combinations(count, what, self.limit)

    def _project_components(self, dimensions: Collection[str]) -> Iterator[Factor]:
        wanted = set(dimensions)
        for component in self._components:
            if ours := tuple(name for name in component.dimensions if name in wanted):
                yield self._project(component, ours)

    # ------------------------------------------------------------------------------------------------- what is given

    def _allowed_codes(self, conditions: Iterable[Condition]) -> dict[str, list[int]]:
        codes = {name: list(range(len(dimension.values))) for name, dimension in self.dimensions.items()}
        for condition in conditions:
            if len(condition.dimensions) > 1:
                continue
            if not condition.dimensions:
                if condition.passes({}, 1) != b"\1":
                    raise self._empty_query_error("it is never true")
                continue
            (name,) = condition.dimensions
            codes[name] = list(compress(codes[name], condition.passes({name: codes[name]}, len(codes[name]))))
            if not codes[name]:
                raise self._empty_query_error(f"no value of '{name}' satisfies it")
        return codes

    def _empty_query_error(self, why: str) -> GraphError:
        return GraphError(f"the query leaves nothing: {why}", origin=self.query_origin)

    def _relation_factor(self, relation: Relation) -> Factor:
        """Relation without the values that the query excludes."""
        rows = relation.rows
        for position, name in enumerate(relation.dimensions):
            if len(self.codes[name]) < len(self.dimensions[name].values):
                allowed = set(self.codes[name])
                rows = [row for row in rows if row[position] in allowed]
        if not rows:
            raise self._empty_query_error(f"{relation.name} has no row that satisfies it")
        return Factor(relation.dimensions, rows, (relation.name,))

    def _equality_factor(self, pair: ColumnComparison) -> Factor:
        """Rows of the equality of two columns."""
        left, right = pair.left, pair.right
        codes: dict[object, list[int]] = {}
        for code in self.codes[right.dimension]:
            codes.setdefault(right.values[code], []).append(code)
        matches = [(code, codes.get(left.values[code], ())) for code in self.codes[left.dimension]]
        self._check_limit(sum(len(found) for _, found in matches), f"'{left.dimension}' = '{right.dimension}'")
        rows: list[Row] = [(code, other) for code, found in matches for other in found]
        if not rows:
            message = f"no value of '{left.dimension}' equals one of '{right.dimension}'"
            raise self._empty_query_error(message)
        return Factor((left.dimension, right.dimension), rows, ("the query",))

    def _apply_conditions(self, factor: Factor, conditions: Iterable[Condition]) -> Factor:
        """Filter a factor by the conditions on its dimensions."""
        for condition in conditions:
            if condition.dimensions <= {*factor.dimensions}:
                factor = self._filter_rows(factor, condition)
        return factor

    def _filter_rows(self, factor: Factor, condition: Condition) -> Factor:
        columns = dict(zip(factor.dimensions, zip(*factor.rows, strict=True), strict=True))
        rows = list(compress(factor.rows, condition.passes(columns, len(factor.rows))))
        if not rows:
            raise self._empty_query_error(f"no combination of {_quoted_names(factor.dimensions)} satisfies it")
        return Factor(factor.dimensions, rows, tuple(dict.fromkeys([*factor.names, "the query"])))

    def _split_components(self, factors: Sequence[Factor], conditions: Sequence[Condition]) -> list[_Component]:
        """Split the dimensions into components, in the order of their first dimensions."""
        group = {name: {name} for name in self.dimensions}
        for links in [*(set(factor.dimensions) for factor in factors), *(each.dimensions for each in conditions)]:
            merged = set().union(*(group[name] for name in links))
            group.update(dict.fromkeys(merged, merged))
        distinct = {id(names): names for names in group.values()}
        return [
            _Component(
                dimensions=tuple(name for name in self.dimensions if name in names),
                factors=tuple(factor for factor in factors if names.issuperset(factor.dimensions)),
                conditions=tuple(each for each in conditions if names.issuperset(each.dimensions)),
            )
            for names in distinct.values()
        ]

    # -------------------------------------------------------------------------------------------------- the projection

    def _project(self, component: _Component, wanted: tuple[str, ...]) -> Factor:
        """Rows of a component, projected to the wanted dimensions."""
        key = frozenset(wanted)
        if key in self._projections:
            return self._projections[key]
        factors = list(component.factors)
        conditions = list(component.conditions)
        leave = [name for name in component.dimensions if name not in wanted]
        while leave:
            # What costs least comes first; often it is a dimension of one factor, which is just left out.
            name = min(leave, key=lambda name: self._elimination_cost(name, factors, conditions))
            leave.remove(name)
            factors, conditions = self._eliminate(name, factors, conditions)
        joined = self._join_factors(factors, conditions, wanted)
        result = self._projections[key] = Factor(wanted, _distinct_rows(joined, wanted), joined.names)
        return result

    def _elimination_cost(
        self, name: str, factors: Iterable[Factor], conditions: Iterable[Condition]
    ) -> tuple[int, int]:
        involved = [factor for factor in factors if name in factor.dimensions]
        covered = {other for factor in involved for other in factor.dimensions}
        loose = {other for each in conditions if name in each.dimensions for other in each.dimensions} - covered
        size = prod(len(factor.rows) for factor in involved) * prod(len(self.codes[other]) for other in loose)
        return (len(involved) + len(loose), size)

    def _eliminate(
        self, name: str, factors: Sequence[Factor], conditions: Sequence[Condition]
    ) -> tuple[list[Factor], list[Condition]]:
        """Eliminate a dimension: join its factors and conditions, then project it out."""
        involved = [factor for factor in factors if name in factor.dimensions]
        deciding = [condition for condition in conditions if name in condition.dimensions]
        others = [factor for factor in factors if name not in factor.dimensions]
        joined = self._join_factors(involved, deciding, (name,))
        kept = tuple(other for other in joined.dimensions if other != name)
        rest = [condition for condition in conditions if name not in condition.dimensions]
        if kept:
            others.append(Factor(kept, _distinct_rows(joined, kept), joined.names))
        return others, rest

    def _join_factors(
        self, factors: Sequence[Factor], conditions: Sequence[Condition], wanted: Collection[str]
    ) -> Factor:
        """Join factors over all their dimensions and the wanted ones, and apply the conditions."""
        left = sorted(factors, key=lambda factor: len(factor.rows))
        open_conditions = list(conditions)
        joined = left.pop(0) if left else Factor((), [()], ())
        needed = {*wanted, *(name for condition in conditions for name in condition.dimensions)}
        while True:
            known = set(joined.dimensions)
            for condition in [each for each in open_conditions if each.dimensions <= known]:
                open_conditions.remove(condition)
                joined = self._filter_rows(joined, condition)
            if left:
                # One that shares dimensions, if there is one: it restricts what is there.
                best = max(left, key=lambda factor: len(known.intersection(factor.dimensions)))
                left.remove(best)
            elif missing := [name for name in self.dimensions if name in needed and name not in known]:
                name = missing[0]
                best = Factor((name,), [(code,) for code in self.codes[name]], (f"the dimension '{name}'",))
            else:
                return joined
            joined = self._join_pair(joined, best)

    def _join_pair(self, left: Factor, right: Factor) -> Factor:
        shared = [name for name in left.dimensions if name in right.dimensions]
        further = [name for name in right.dimensions if name not in shared]
        dimensions = (*left.dimensions, *further)
        names = tuple(dict.fromkeys([*left.names, *right.names]))
        what = f"{' with '.join(names)} joined"
        if not shared:
            self._check_limit(len(left.rows) * len(right.rows), what)
            return Factor(dimensions, [one + other for one, other in product(left.rows, right.rows)], names)
        key, other_key = row_projection(left.dimensions, shared), row_projection(right.dimensions, shared)
        rest = row_projection(right.dimensions, further)
        if len(left.rows) * len(right.rows) > self.limit:
            counts = Counter(map(other_key, right.rows))
            self._check_limit(sum(map(counts.__getitem__, map(key, left.rows))), what)
        groups: dict[Row, list[Row]] = {}
        for row in right.rows:
            groups.setdefault(other_key(row), []).append(rest(row))
        rows = [row + more for row in left.rows for more in groups.get(key(row), ())]
        if not rows:
            message = f"{' and '.join(names)} have no row in common: no values of {_quoted_names(shared)} are in both"
            raise GraphError(message, hint="A query is applied before." if self.query_origin else "")
        return Factor(dimensions, rows, names)


def too_many_combinations(count: int, what: str, limit: int, origin: Origin | None = None) -> GraphError:
    """Error for more combinations than the limit."""
    return GraphError(
        f"{what}: {count:,} combinations, more than the limit of {limit:,}",
        origin=origin,
        hint="Join the dimensions by a table under 'relations', narrow them by 'dataQuery', or raise 'maxTasks'.",
    )


def _quoted_names(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _distinct_rows(factor: Factor, dimensions: Sequence[str]) -> list[Row]:
    """Distinct rows over some dimensions, in this order."""
    if tuple(dimensions) == factor.dimensions:
        return factor.rows
    rows = map(row_projection(factor.dimensions, dimensions), factor.rows)
    return list(rows) if len(dimensions) == len(factor.dimensions) else list(dict.fromkeys(rows))


def row_projection(dimensions: Sequence[str], wanted: Sequence[str]) -> Callable[[Row], Row]:
    """Function that projects a row to the wanted dimensions, in their order."""
    places = [dimensions.index(name) for name in wanted]
    if places == list(range(len(dimensions))):
        return _same_row
    if not places:
        return _empty_row
    if len(places) == 1:
        place = places[0]
        return lambda row: (row[place],)
    return itemgetter(*places)


def _same_row(row: Row) -> Row:
    return row


def _empty_row(_row: Row) -> Row:
    return ()
