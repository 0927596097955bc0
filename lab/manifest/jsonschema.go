package manifest

import (
	"encoding/json"

	"bakeoff/base/jsonschema"
	"bakeoff/base/lists"
	"bakeoff/base/param"
)

// JSONSchema returns the JSON Schema (draft 2020-12) of lab files that name
// what cat holds, for editors. It is indented and ends with a newline.
//
// Parse also checks what a schema cannot express: that a baseline is a contender,
// and that looks ascend.
func JSONSchema(cat Catalogue) []byte {
	return jsonschema.Document(lab(cat).schema(), "bakeoff lab file")
}

type jsonObject = jsonschema.Object

func (s *shape) schema() jsonObject {
	switch s.kind {
	case list:
		return jsonschema.ArrayOf(s.of.schema())
	case dict:
		out := jsonschema.MapOf(s.of.schema())
		if s.key.pattern != "" {
			out["propertyNames"] = s.key.schema()
		}
		return out
	case object:
		return s.objectSchema()
	case eitherOf:
		all := lists.Map(s.either, func(a *shape) any { return a.schema() })
		return jsonObject{"anyOf": all}
	}
	return s.singleSchema()
}

func (s *shape) singleSchema() jsonObject {
	out := jsonObject{}
	switch s.spec.Kind {
	case param.Int:
		out["type"] = "integer"
	case param.Number:
		out["type"] = "number"
	case param.Bool:
		out["type"] = "boolean"
	case param.Size:
		out["type"] = []string{"string", "integer"}
		out["pattern"] = `^[0-9]+(\.[0-9]+)?([kKmMgGtT](i?B)?|B)?$`
	case param.Duration:
		out["type"], out["pattern"] = "string", `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	case param.Rate:
		out["type"], out["pattern"] = "string", `^[0-9]+(\.[0-9]+)?[kM]?/s$`
	default:
		switch {
		case len(s.spec.Enum) > 0:
			var all []any
			for _, v := range s.spec.Enum {
				if all = append(all, v); v == "true" || v == "false" {
					all = append(all, v == "true") // without quotes it is a boolean
				}
			}
			out["enum"] = all
		case s.pattern != "":
			out["type"], out["pattern"] = "string", "^(?:"+s.pattern+")$"
		default: // a text may look like a number: its characters are kept
			out["type"] = []string{"string", "number", "boolean"}
		}
	}
	if s.spec.Min != 0 || s.spec.Max != 0 {
		out["minimum"], out["maximum"] = s.spec.Min, s.spec.Max
	}
	if s.share {
		out = jsonObject{"anyOf": []any{out, jsonObject{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`}}}
	}
	return out
}

// objectSchema writes an object. Variants are conditions on the field that
// chooses them; unevaluatedProperties sees through those, as
// additionalProperties does not.
func (s *shape) objectSchema() jsonObject {
	properties, required := propertiesOf(s.fields)
	out := jsonschema.Closed(properties, required)
	if s.by == "" {
		return out
	}
	delete(out, "additionalProperties")
	var all []any
	for _, v := range s.variants {
		then, required := propertiesOf(v.fields)
		branch := jsonObject{"properties": then}
		if len(required) > 0 {
			branch["required"] = required
		}
		all = append(all, jsonObject{
			"if":   jsonObject{"properties": jsonObject{s.by: jsonObject{"const": v.value}}, "required": []string{s.by}},
			"then": branch,
		})
	}
	if len(all) > 0 {
		out["allOf"] = all
	}
	out["unevaluatedProperties"] = false
	return out
}

func propertiesOf(fields []field) (properties jsonObject, required []string) {
	properties = jsonObject{}
	for _, f := range fields {
		p := f.shape.schema()
		p["description"] = f.doc
		if f.def != "" {
			p["default"] = f.shape.value(f.def)
		}
		properties[f.name] = p
		if f.required && !f.elsewhere {
			required = append(required, f.name)
		}
	}
	return properties, required
}

// value returns a default as JSON of the shape's type.
func (s *shape) value(text string) any {
	numeric := s.spec.Kind == param.Int || s.spec.Kind == param.Number || s.spec.Kind == param.Bool
	var v any
	if (numeric || s.kind != single) && json.Unmarshal([]byte(text), &v) == nil {
		return v
	}
	return text
}
