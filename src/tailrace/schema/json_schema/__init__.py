"""JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12.

A schema without `$schema`, or with one that is not known, is of draft 7. Texts, normalisation and compatibility are
those of Confluent's registry. It compares schemas by its own rules, which are kept here together with their limits:
`contains`, `propertyNames`, `format`, conditions and the schemas of `patternProperties` are not compared, and a name in
`required` counts only if both schemas describe the property.

Where the answers differ from those of Confluent's registry 8.3.1, and why:

- A schema that breaks the metaschema of its draft is refused, and so are texts that go on after the JSON value, NaN and
  Infinity. Confluent's registry overlooks much of this, and clients in other languages do not.
- References that only lead to each other are refused: a validator would follow them without end.
- Nothing is fetched from a remote address. Confluent's registry does so unless its config forbids it. A reference by
  name is found in all drafts in which Confluent's registry finds it in one.
- A chain of references is followed to its end. Confluent's registry stops at the second one: it takes two such schemas
  for equal whatever they lead to, and for a changed type where only one of them has a chain.
- A change inside a recursive schema is reported once, at the shortest path, and a recursion that contains it is not
  taken as compatible.
- Since 2019-09, an alternative of `oneOf` or `anyOf` with several constraints is one alternative. Confluent's registry
  counts each constraint as an alternative, so it takes an added constraint for an added alternative.
- `unevaluatedProperties` and `unevaluatedItems` are compared also in a schema with `$defs` or unknown keywords beside
  them, where Confluent's registry loses them. A default of null counts as a default in all drafts.
- The exclusive bounds of draft 4 are compared, and 2019-09 has its own `items`. Confluent's registry ignores the first
  and reads 2019-09 like 2020-12.
- Changes at which Confluent's registry fails are judged: a lowered `exclusiveMaximum`, a `multipleOf` below one, and
  `dependentRequired` beside `dependentSchemas`.
- An expression of `patternProperties` that RE2 cannot match, such as one with look-ahead, covers no property.
- At most 1,000 changes are reported, and schemas with too many alternatives to compare are incompatible.
"""

from tailrace.schema.json_schema.schema import JsonSchema, parse
from tailrace.schema.json_schema.validation import InvalidValue, Validator, validator

__all__ = ["InvalidValue", "JsonSchema", "Validator", "parse", "validator"]
