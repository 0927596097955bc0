// Package jsonschema writes JSON Schemas (draft 2020-12) of the files that people write,
// for editors.
package jsonschema

import (
	"encoding/json"
	"maps"
	"reflect"
)

// Object is a schema, or a part of one.
type Object = map[string]any

// Document returns a schema with its title, indented and with a newline at the end.
func Document(schema Object, title string) []byte {
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", title
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // maps, slices, texts and numbers only
	}
	return append(out, '\n')
}

// ArrayOf is the schema of a list.
func ArrayOf(items Object) Object { return Object{"type": "array", "items": items} }

// MapOf is the schema of an object with any keys.
func MapOf(values Object) Object { return Object{"type": "object", "additionalProperties": values} }

// Closed is the schema of an object that has no keys but these.
func Closed(properties Object, required []string) Object {
	out := Object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// Types says what reflection does not show of the types that a file is decoded into. A
// key is named by its type and itself: "Table.rows".
type Types struct {
	// Scalar returns the schema of a type other than a struct, list, map, truth value or
	// number, and of one that decodes itself; nil for all others.
	Scalar func(reflect.Type) Object
	// Docs describes keys.
	Docs map[string]string
	// Rules are added to the schemas of keys. A value nil removes what is there.
	Rules map[string]Object
	// Required are the keys that must be there, by type.
	Required map[string][]string
}

// SchemaOf returns the schema of a type by the keys (yaml) that it is decoded from, so that
// the two cannot diverge.
func (x Types) SchemaOf(t reflect.Type) Object {
	if s := x.Scalar(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Slice:
		return ArrayOf(x.SchemaOf(t.Elem()))
	case reflect.Map:
		return MapOf(x.SchemaOf(t.Elem()))
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Int:
		return Object{"type": "integer"}
	case reflect.Float64:
		return Object{"type": "number"}
	}
	properties := Object{}
	for _, f := range reflect.VisibleFields(t) {
		key := f.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		s, name := x.SchemaOf(f.Type), t.Name()+"."+key
		if doc := x.Docs[name]; doc != "" {
			s["description"] = doc
		}
		maps.Copy(s, x.Rules[name])
		maps.DeleteFunc(s, func(_ string, v any) bool { return v == nil })
		properties[key] = s
	}
	return Closed(properties, x.Required[t.Name()])
}
