package audit

import (
	"encoding/json"
	"reflect"
)

// JSONSchema returns the JSON Schema (draft 2020-12) of published tables, for
// editors. It is indented and ends with a newline.
//
// Parse also checks what a schema cannot express: that a claim names a row, and
// that a formula can be computed.
func JSONSchema() []byte {
	s := schemaOf(reflect.TypeFor[Table]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "table published elsewhere, for bakeoff audit"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps, slices, texts and numbers only
	}
	return append(out, '\n')
}

type object = map[string]any

// needed are the keys that must be there, by type.
var needed = map[string][]any{
	"Table":  {"schema", "title", "source", "columns", "rows"},
	"Source": {"title"}, "Tool": {"name"}, "Spread": {"cv"}, "Note": {"what"},
	"Column": {"name"}, "Limit": {"what", "value"}, "Row": {"name", "values"},
	"Claim": {"text", "a", "column", "relation"},
}

// rules are the constraints of a key in addition to its type, by type and key.
var rules = map[string]object{
	"Table.schema":     {"const": Schema},
	"Table.columns":    {"minItems": 1, "maxItems": maxColumns},
	"Table.rows":       {"minItems": 1, "maxItems": maxRows},
	"Table.claims":     {"maxItems": maxClaims, "description": "what the article rests on the table"},
	"Experiment.order": {"enum": []any{"sequential", "blocks", "random"}},
	"Experiment.live":  {"description": "the machine served others meanwhile"},
	"Experiment.assumed": {
		"description": "which of the facts the article does not give, and where they come from"},
	"Experiment.headers": {"description": "bytes around the body of an answer: HTTP headers, TLS records"},
	"Experiment.payload": {"description": "bytes of an answer's body"},
	"Experiment.link":    {"description": "the slowest link between client and server"},
	"Machine.frequency":  {"description": "the highest that the processor reaches"},
	"Machine.cores":      {"minimum": 0, "maximum": 1 << 16},
	"Tool.settings":      {"description": "its arguments, as published"},
	"Summary.of":         {"enum": []any{"mean", "median", "best"}},
	"Summary.trim":       {"minimum": 0, "exclusiveMaximum": 0.5, "description": "share of the runs removed at each end"},
	"Spread.cv":          {"exclusiveMinimum": 0, "description": "coefficient of variation, as a share"},
	"Spread.of":          {"description": "what was spread: the runs of a row, all rows together"},
	"Client.busy":        {"minimum": 0, "maximum": 1, "description": "share of its CPU that was used"},
	"Column.name":        {"pattern": nameForm.String()},
	"Column.better":      {"enum": []any{"higher", "lower"}},
	"Column.formula": {"description": "how the authors say that it follows from other columns: + - * / ( ), " +
		"numbers, columns, column@row"},
	"Column.role":    {"enum": []any{"idle"}},
	"Limit.value":    {"exclusiveMinimum": 0, "description": "what no value of the column can exceed, in its unit"},
	"Limit.shared":   {"description": "a disk, a bus, memory: rows that come near it are tied by it"},
	"Row.name":       {"pattern": nameForm.String()},
	"Row.values":     {"propertyNames": object{"pattern": nameForm.String()}},
	"Claim.relation": {"enum": allowed(relations)},
	"Claim.ratio":    {"exclusiveMinimum": 0, "description": "with relation ratio: how many times better a is than b"},
	"Claim.bound":    {"enum": []any{"least", "most", "about"}},
	"Claim.within": {"minimum": 0, "exclusiveMaximum": 1,
		"description": "with relation equal: the largest share that still is"},
	"Claim.among": {"description": "rows that best and worst range over; all where left out"},
}

func allowed(list []string) (out []any) {
	for _, w := range list {
		out = append(out, w)
	}
	return out
}

// text is what YAML reads as text: 2004 is a date as well.
func text() object { return object{"type": []any{"string", "number"}} }

// digits are a number as figure reads it.
const digits = `([0-9]+\.?[0-9]*|\.[0-9]+)`

// printed is a figure as it was printed: 46.2 or 46.2k.
func printed() object {
	return object{"type": []any{"number", "string"}, "pattern": `^-?` + digits + `[kMG]?$`}
}

// schemaOf describes a type of a table by the keys that Parse reads, so that
// the two cannot diverge.
func schemaOf(t reflect.Type) object {
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
	switch t.Kind() {
	case reflect.Struct:
		return structSchema(t)
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	}
	return text()
}

func structSchema(t reflect.Type) object {
	properties := object{}
	for _, f := range reflect.VisibleFields(t) {
		key := f.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		s := schemaOf(f.Type)
		for k, v := range rules[t.Name()+"."+key] {
			s[k] = v
		}
		if s["enum"] != nil || s["const"] != nil {
			delete(s, "type")
		}
		properties[key] = s
	}
	out := object{"type": "object", "additionalProperties": false, "properties": properties}
	if n := needed[t.Name()]; n != nil {
		out["required"] = n
	}
	return out
}
