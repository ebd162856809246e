"""The graph of nodes of a schema, built without recursion.

A node's class depends only on the keywords of its own schema. So each schema becomes a node at once, and a list holds
what is still to be filled in: the nodes of its parts and the targets of its references.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from tailrace.schema.json_schema.document import Json, sort_key
from tailrace.schema.json_schema.draft import FOUR, SEVEN, TWENTY, Draft
from tailrace.schema.json_schema.node import (
    AnyValue,
    ArrayValue,
    BooleanValue,
    Combination,
    Condition,
    ConstValue,
    Criterion,
    EnumValue,
    Negation,
    Node,
    NoValue,
    NullValue,
    NumberValue,
    ObjectValue,
    Reference,
    StringValue,
)
from tailrace.schema.json_schema.reference import References, Scope
from tailrace.schema.language import InvalidSchema

COMBINATIONS: tuple[Criterion, ...] = ("allOf", "anyOf", "oneOf")

OBJECT_KEYWORDS = (
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
)
ARRAY_KEYWORDS = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains")
OLD_KEYWORDS = {
    "array": ARRAY_KEYWORDS,
    "object": (*OBJECT_KEYWORDS, "dependencies"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format"),
}
NEW_KEYWORDS = OLD_KEYWORDS | {
    "array": (*ARRAY_KEYWORDS, "prefixItems", "unevaluatedItems"),
    "object": (*OBJECT_KEYWORDS, "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
    "string": ("minLength", "maxLength", "pattern"),
}
"""Keywords that constrain values of a type. One alone makes a node of its type, which does not exclude other types."""

TYPE_OF_OLD_KEYWORD = {keyword: name for name, keywords in OLD_KEYWORDS.items() for keyword in keywords}
TYPE_OF_NEW_KEYWORD = {keyword: name for name, keywords in NEW_KEYWORDS.items() for keyword in keywords}

NOT_COMPARED = ("contains", "propertyNames", "if", "then", "else")
"""Keywords whose schemas Confluent's registry does not compare. Their references must lead somewhere all the same."""

Schema = Mapping[str, Json]


def build(references: References) -> Node:
    """Return the graph of a document; raise InvalidSchema if one of its references leads nowhere."""
    return _Builder(references).build()


class _Builder:
    def __init__(self, references: References) -> None:
        self._references = references
        self._made: dict[int, Node] = {}
        self._unfilled: list[Callable[[], None]] = []
        self._targets: list[Reference] = []

    def build(self) -> Node:
        root = self._node(self._references.root, self._references.scope)
        while self._unfilled:
            self._unfilled.pop()()
        _refuse_circles(self._targets)
        return root

    def _node(self, schema: Json, scope: Scope) -> Node:
        """Return the node of a schema, the same one for each reference to it."""
        if isinstance(schema, bool):
            return AnyValue(schema) if schema else NoValue(schema)
        made = self._made.get(id(schema))
        if made is None:
            made = self._made[id(schema)] = self._new_node(schema, scope.inside(schema))
        return made

    def _new_node(self, schema: Schema, scope: Scope) -> Node:
        if "$ref" in schema and not scope.draft.is_modern:
            return self._reference(schema["$ref"], scope)
        self._unfilled.append(lambda: self._follow_references(schema, scope))
        parts = self._parts(schema, scope)
        if not parts:
            node: Node = AnyValue()
        elif len(parts) == 1:
            node = parts[0]
        else:
            node = Combination(criterion="allOf", parts=parts, is_one_schema=True)
        node.source = schema
        # A reference has no default of its own in Confluent's registry, not even where the draft allows one.
        node.has_default = "default" in schema and not isinstance(node, Reference)
        connect_type = schema.get("connect.type")
        node.connect_type = connect_type if isinstance(connect_type, str) else None
        return node

    def _parts(self, schema: Schema, scope: Scope) -> list[Node]:
        draft = scope.draft
        parts: list[Node] = []
        if draft.is_modern:
            followed = ("$ref", "$dynamicRef", "$recursiveRef")
            parts += [self._reference(schema[name], scope) for name in followed if name in schema]
        if "enum" in schema:
            parts.append(
                EnumValue({"enum": schema["enum"]}, values={sort_key(value): value for value in schema["enum"]})
            )
        parts += [self._combination(name, schema[name], scope) for name in COMBINATIONS if name in schema]
        if "not" in schema:
            parts.append(self._negation(schema["not"], scope))
        if "const" in schema and draft is not FOUR:
            parts.append(ConstValue({"const": schema["const"]}, value=sort_key(schema["const"])))
        parts += self._typed(schema, scope)
        if _has_condition(schema, draft):
            parts.append(Condition())
        return parts

    def _follow_references(self, schema: Schema, scope: Scope) -> None:
        """Build schemas that are not compared, to find references that lead nowhere."""
        for keyword in NOT_COMPARED:
            if keyword in scope.draft.holders and keyword in schema:
                self._node(schema[keyword], scope)
        if scope.draft.is_modern:  # which Confluent's registry loads whether or not they are used
            self._nodes(schema.get("$defs", {}), scope)

    def _typed(self, schema: Schema, scope: Scope) -> list[Node]:
        """Return the node of the type or types, and one for each other type whose constraints the schema holds."""
        named = schema.get("type", [])
        names = {named: None} if isinstance(named, str) else dict.fromkeys(named)
        parts: list[Node] = [self._of_type(name, schema, scope, {"type": name}) for name in names]
        if parts and not isinstance(named, str):
            parts = [Combination({"type": named}, criterion="anyOf", parts=parts)]
        covered = names.keys() | ({"number"} if "integer" in names else set())
        for name in _constrained_types(schema, scope.draft):
            if name not in covered:
                parts.append(self._of_type(name, schema, scope, {}))
        return parts

    def _of_type(self, name: str, schema: Schema, scope: Scope, source: Schema) -> Node:
        node = self._new_value(name, schema, scope)
        keywords = _keywords(scope.draft).get("number" if name == "integer" else name, ())
        node.source = {**source, **{keyword: schema[keyword] for keyword in keywords if keyword in schema}}
        return node

    def _new_value(self, name: str, schema: Schema, scope: Scope) -> Node:
        if name == "string":
            return StringValue(
                length_min=schema.get("minLength"), length_max=schema.get("maxLength"), pattern=schema.get("pattern")
            )
        if name in ("number", "integer"):
            return _number(schema, is_integer=name == "integer", draft=scope.draft)
        if name == "object":
            return self._object(schema, scope)
        if name == "array":
            return self._array(schema, scope)
        return BooleanValue() if name == "boolean" else NullValue()

    def _object(self, schema: Schema, scope: Scope) -> ObjectValue:
        node = ObjectValue(
            required=frozenset(schema.get("required", ())),
            properties_min=schema.get("minProperties"),
            properties_max=schema.get("maxProperties"),
        )

        def fill() -> None:
            node.properties = self._nodes(schema.get("properties", {}), scope)
            node.patterns = self._nodes(schema.get("patternProperties", {}), scope)
            node.additional = self._rest(schema.get("additionalProperties", True), scope)
            if scope.draft.is_modern:
                lists, schemas = schema.get("dependentRequired", {}), schema.get("dependentSchemas", {})
                if "unevaluatedProperties" in schema:
                    node.unevaluated = self._node(schema["unevaluatedProperties"], scope)
            else:
                either = schema.get("dependencies", {})
                lists = {name: needs for name, needs in either.items() if isinstance(needs, list)}
                schemas = {name: needs for name, needs in either.items() if not isinstance(needs, list)}
            node.required_with = {name: frozenset(needs) for name, needs in lists.items() if needs}
            node.schemas_with = self._nodes(schemas, scope)

        self._unfilled.append(fill)
        return node

    def _array(self, schema: Schema, scope: Scope) -> ArrayValue:
        node = ArrayValue(
            items_min=schema.get("minItems"),
            items_max=schema.get("maxItems"),
            is_unique=schema.get("uniqueItems", False),
        )
        if scope.draft.is_modern and "contains" in schema:
            node.contains_min, node.contains_max = schema.get("minContains", 1), schema.get("maxContains")

        def fill() -> None:
            items, after = _items(schema, scope.draft)
            if isinstance(items, list):
                node.prefix = [self._node(item, scope) for item in items]
            elif items is not None:
                node.items = self._node(items, scope)
            if node.items is None or after is not False:
                node.additional = self._rest(after, scope)
            if scope.draft.is_modern and "unevaluatedItems" in schema:
                node.unevaluated = self._node(schema["unevaluatedItems"], scope)

        self._unfilled.append(fill)
        return node

    def _nodes(self, schemas: Schema, scope: Scope) -> dict[str, Node]:
        return {name: self._node(schema, scope) for name, schema in schemas.items()}

    def _rest(self, schema: Json, scope: Scope) -> Node | Literal[False] | None:
        if isinstance(schema, bool):
            return None if schema else False
        return self._node(schema, scope)

    def _combination(self, criterion: Criterion, schemas: list[Json], scope: Scope) -> Combination:
        combination = Combination({criterion: schemas}, criterion=criterion)

        def fill() -> None:
            for schema in schemas:
                part = self._node(schema, scope)
                flattened = criterion == "allOf" and scope.draft.is_modern
                if flattened and isinstance(part, Combination) and part.is_one_schema:
                    combination.parts += part.parts
                else:
                    combination.parts.append(part)

        self._unfilled.append(fill)
        return combination

    def _negation(self, schema: Json, scope: Scope) -> Negation:
        negation = Negation({"not": schema})

        def fill() -> None:
            negation.inner = self._node(schema, scope)

        self._unfilled.append(fill)
        return negation

    def _reference(self, name: str, scope: Scope) -> Reference:
        reference = Reference({"$ref": name}, name=name)

        def fill() -> None:
            target, target_scope = self._references.follow(name, scope)
            reference.target = self._node(target, target_scope)

        self._unfilled.append(fill)
        self._targets.append(reference)
        return reference


def _keywords(draft: Draft) -> Mapping[str, tuple[str, ...]]:
    return NEW_KEYWORDS if draft.is_modern else OLD_KEYWORDS


def _items(schema: Schema, draft: Draft) -> tuple[Json, Json]:
    """Return the schema of all items or the list of schemas of the first ones, and that of the items after them."""
    if draft is not TWENTY:
        return schema.get("items"), schema.get("additionalItems", True)
    if "prefixItems" in schema:
        return schema["prefixItems"], schema.get("items", True)
    items = schema.get("items", True)
    return (None, items) if isinstance(items, bool) else (items, True)


def _number(schema: Schema, is_integer: bool, draft: Draft) -> NumberValue:
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if draft is FOUR:  # where it is a boolean that changes the meaning of the bound beside it
        minimum, above = (None, minimum) if above else (minimum, None)
        maximum, below = (None, maximum) if below else (maximum, None)
    return NumberValue(
        is_integer=is_integer,
        minimum=minimum,
        maximum=maximum,
        above=above,
        below=below,
        multiple_of=schema.get("multipleOf"),
    )


def _constrained_types(schema: Schema, draft: Draft) -> dict[str, None]:
    """Return the types whose values the keywords of a schema constrain."""
    types = TYPE_OF_NEW_KEYWORD if draft.is_modern else TYPE_OF_OLD_KEYWORD
    return dict.fromkeys(
        types[keyword]
        for keyword, value in schema.items()
        if keyword in types
        and not (draft is FOUR and keyword in ("contains", "propertyNames"))
        and not (draft is TWENTY and keyword == "additionalItems")
        and not (draft.is_modern and keyword in ("properties", "patternProperties") and not value)
    )


def _has_condition(schema: Schema, draft: Draft) -> bool:
    if draft.is_modern:
        return "if" in schema
    return draft is SEVEN and any(keyword in schema for keyword in ("if", "then", "else"))


def _refuse_circles(references: list[Reference]) -> None:
    """Raise InvalidSchema for references that only lead to each other: they describe no value."""
    ends: set[int] = set()
    for reference in references:
        chain: dict[int, Node] = {}
        node: Node | None = reference
        while isinstance(node, Reference) and id(node) not in ends:
            if id(node) in chain:
                raise InvalidSchema(f"$ref '{reference.name}' leads back to itself without describing anything")
            chain[id(node)] = node
            node = node.target
        ends.update(chain)
