package manifest

import (
	"reflect"
	"slices"
	"strings"

	"bakeoff/base/jsonschema"
)

// JSONSchema is the schema of a manifest: a guest or a network, or a list of them. As in Read, numbers
// and truth values may be texts, and a list of texts may be one text with commas.
func JSONSchema() []byte {
	guest := schemaOf(reflect.TypeFor[Guest](), "")
	network := schemaOf(reflect.TypeFor[Network](), "")
	network["required"] = []string{"network"}
	item := jsonschema.Object{"oneOf": []any{jsonschema.Object{"$ref": "#/$defs/guest"},
		jsonschema.Object{"$ref": "#/$defs/network"}}}
	return jsonschema.Document(jsonschema.Object{"$defs": jsonschema.Object{"guest": guest, "network": network,
		"item": item}, "oneOf": []any{jsonschema.Object{"$ref": "#/$defs/item"},
		jsonschema.ArrayOf(jsonschema.Object{"$ref": "#/$defs/item"})}}, "bakeoff guests")
}

func schemaOf(t reflect.Type, name string) jsonschema.Object {
	switch t.Kind() {
	case reflect.Struct:
		properties := jsonschema.Object{}
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			properties[key] = schemaOf(t.Field(i).Type, key)
		}
		return jsonschema.Closed(properties, nil)
	case reflect.Slice:
		items := schemaOf(t.Elem(), "")
		if t.Elem().Kind() == reflect.Struct {
			return jsonschema.ArrayOf(items)
		}
		return jsonschema.Object{"oneOf": []any{jsonschema.ArrayOf(items), jsonschema.Object{"type": "string"}}}
	case reflect.Map:
		return jsonschema.MapOf(jsonschema.Object{"type": []string{"string", "number", "boolean"}})
	case reflect.Bool:
		return jsonschema.Object{"enum": []any{true, false, "true", "false"}}
	case reflect.Int:
		number := jsonschema.Object{"type": "integer"}
		if limit, ok := between[name]; ok {
			number["minimum"], number["maximum"] = limit[0], limit[1]
		}
		return jsonschema.Object{"oneOf": []any{number, jsonschema.Object{"type": "string", "pattern": "^-?[0-9]{0,9}$"},
			jsonschema.Object{"type": "null"}}}
	}
	text := jsonschema.Object{"type": []string{"string", "null"}}
	if isUUID(name) {
		text = jsonschema.Object{"type": "string"}
	}
	if name == "brand" {
		text = jsonschema.Object{"enum": Brands}
	}
	if name == "driver" {
		var all []string
		for _, b := range Brands {
			all = append(append(all, b.DriversOn("linux")...), b.DriversOn("freebsd")...)
		}
		slices.Sort(all)
		text = jsonschema.Object{"enum": slices.Compact(all)}
	}
	if known := words[name]; known != nil {
		text = jsonschema.Object{"enum": known}
	}
	return text
}
