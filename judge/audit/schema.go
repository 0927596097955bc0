package audit

import (
	"reflect"

	"bakeoff/base/jsonschema"
)

// JSONSchema returns the JSON Schema (draft 2020-12) of published tables, for
// editors. It is indented and ends with a newline.
//
// Parse also checks what a schema cannot express: that a claim names a row, and
// that a formula can be computed.
func JSONSchema() []byte {
	t := jsonschema.Types{Scalar: scalarSchema, Rules: rules, Required: needed}
	return jsonschema.Document(t.SchemaOf(reflect.TypeFor[Table]()), "table published elsewhere, for bakeoff audit")
}

type object = jsonschema.Object

// needed are the keys that must be there, by type.
var needed = map[string][]string{
	"Table":  {"schema", "title", "source", "columns", "rows"},
	"Source": {"title"}, "Tool": {"name"}, "Spread": {"cv"}, "Note": {"what"},
	"Column": {"name"}, "Limit": {"what", "value"}, "Row": {"name", "values"},
	"Claim": {"text", "a", "column", "relation"},
}

// rules are the constraints of a key in addition to its type, by type and key.
var rules = map[string]object{
	"Table.schema":     {"const": Schema, "type": nil},
	"Table.columns":    {"minItems": 1, "maxItems": maxColumns},
	"Table.rows":       {"minItems": 1, "maxItems": maxRows},
	"Table.claims":     {"maxItems": maxClaims, "description": "what the article concludes from the table"},
	"Experiment.order": oneOf("sequential", "blocks", "random"),
	"Experiment.live":  {"description": "the machine served others meanwhile"},
	"Experiment.assumed": {
		"description": "which of the facts the article does not give, and where they come from"},
	"Experiment.headers": {"description": "bytes around the body of an answer: HTTP headers, TLS records"},
	"Experiment.payload": {"description": "bytes of an answer's body"},
	"Experiment.link":    {"description": "the slowest link between client and server"},
	"Machine.frequency":  {"description": "the highest that the processor reaches"},
	"Machine.cores":      {"minimum": 0, "maximum": 1 << 16},
	"Tool.settings":      {"description": "its arguments, as published"},
	"Summary.of":         oneOf("mean", "median", "best"),
	"Summary.trim":       {"minimum": 0, "exclusiveMaximum": 0.5, "description": "share of the runs removed at each end"},
	"Spread.cv":          {"exclusiveMinimum": 0, "description": "coefficient of variation, as a share"},
	"Spread.of":          {"description": "what was spread: the runs of a row, all rows together"},
	"Client.busy":        {"minimum": 0, "maximum": 1, "description": "share of its CPU that was used"},
	"Column.name":        {"pattern": nameForm.String()},
	"Column.better":      oneOf("higher", "lower"),
	"Column.formula": {"description": "how the authors compute the column from others, written with + - * / ( ), " +
		"numbers, columns, column@row"},
	"Column.role": oneOf("idle"),
	"Column.includes": {"description": "a column, copied from another table, whose work each operation of this one " +
		"includes: the same requests without encryption"},
	"Experiment.protocols": {"description": "what the server offers, such as HTTP/1.1 and HTTP/2"},
	"Limit.value":          {"exclusiveMinimum": 0, "description": "what no value of the column can exceed, in its unit"},
	"Limit.shared":         {"description": "a disk, a bus or memory, whose limit makes rows near it look equal"},
	"Row.name":             {"pattern": nameForm.String()},
	"Row.values":           {"propertyNames": object{"pattern": nameForm.String()}},
	"Claim.relation":       oneOf(relations...),
	"Claim.ratio": {"exclusiveMinimum": 0,
		"description": "with relation ratio: how many times better a is than b"},
	"Claim.bound": oneOf("least", "most", "about"),
	"Claim.within": {"minimum": 0, "exclusiveMaximum": 1,
		"description": "with relation equal: the largest difference, as a share, that still counts as equal"},
	"Claim.among": {"description": "rows that the relations best and worst compare; the default is all rows"},
}

// oneOf is one of some words, whatever its type is.
func oneOf(words ...string) object { return object{"enum": words, "type": nil} }

// textSchema is what YAML reads as text: 2004 is a date as well.
func textSchema() object { return object{"type": []any{"string", "number"}} }

// digits are a number as figure reads it.
const digits = `([0-9]+\.?[0-9]*|\.[0-9]+)`

// printed is a figure as it was printed: 46.2 or 46.2k.
func printed() object {
	return object{"type": []any{"number", "string"}, "pattern": `^-?` + digits + `[kMG]?$`}
}

// scalarSchema is the schema of a value that is written as one text.
func scalarSchema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[Cell]():
		return object{"anyOf": []any{printed(), object{"type": "object", "additionalProperties": false, "properties": object{
			"from": printed(), "to": printed(), "value": printed(),
			"missing":   object{"type": "string", "description": "why nothing is printed"},
			"cropped":   object{"type": "string", "description": "why the figure is not all there"},
			"estimated": object{"type": "string", "description": "how it was read, from a drawing for instance"},
		}}}}
	case reflect.TypeFor[Count]():
		return object{"anyOf": []any{object{"type": "integer", "minimum": 1, "maximum": 1_000_000},
			object{"const": "several"}}}
	case reflect.TypeFor[size]():
		return object{"type": "string", "pattern": `^` + digits + `([kMGT]B|[KMGT]iB|B)$`}
	case reflect.TypeFor[bitrate]():
		return object{"type": "string", "pattern": `^` + digits + `[kMG]bit/s$`}
	case reflect.TypeFor[frequency]():
		return object{"type": "string", "pattern": `^` + digits + `[MG]Hz$`}
	}
	if t.Kind() == reflect.String {
		return textSchema()
	}
	return nil
}
