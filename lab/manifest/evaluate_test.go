package manifest

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
)

// evaluate checks a value against the keywords of JSON Schema 2020-12 that
// JSONSchema writes, and says what does not fit. A keyword that it does not
// know does not fit either.
func evaluate(schema, v any) string {
	s := schema.(map[string]any)
	for key, arg := range s {
		problem := ""
		switch key {
		case "$schema", "title", "description", "default", "then":
		case "type":
			problem = evaluateType(arg, v)
		case "enum":
			if !slices.ContainsFunc(arg.([]any), func(x any) bool { return reflect.DeepEqual(x, v) }) {
				problem = fmt.Sprintf("%v is not one of %v", v, arg)
			}
		case "const":
			if !reflect.DeepEqual(arg, v) {
				problem = "another constant"
			}
		case "pattern":
			if text, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(text) {
				problem = fmt.Sprintf("%q does not match %s", text, arg)
			}
		case "minimum", "maximum":
			n, ok := v.(float64)
			if ok && (key == "minimum" && n < arg.(float64) || key == "maximum" && n > arg.(float64)) {
				problem = fmt.Sprintf("%v is outside %s %v", n, key, arg)
			}
		case "items":
			if list, ok := v.([]any); ok {
				for _, item := range list {
					if problem = evaluate(arg, item); problem != "" {
						break
					}
				}
			}
		case "anyOf":
			if !slices.ContainsFunc(arg.([]any), func(a any) bool { return evaluate(a, v) == "" }) {
				problem = "nothing of anyOf fits"
			}
		case "properties", "required", "additionalProperties", "propertyNames", "allOf", "unevaluatedProperties":
			if m, ok := v.(map[string]any); ok {
				problem = evaluateObject(s, m)
			}
		default:
			problem = "keyword " + key
		}
		if problem != "" {
			return problem
		}
	}
	return ""
}

func evaluateType(arg, v any) string {
	names, ok := arg.([]any)
	if !ok {
		names = []any{arg}
	}
	for _, name := range names {
		n, number := v.(float64)
		fits := false
		switch name {
		case "string":
			_, fits = v.(string)
		case "boolean":
			_, fits = v.(bool)
		case "number":
			fits = number
		case "integer":
			fits = number && n == math.Trunc(n)
		case "array":
			_, fits = v.([]any)
		case "object":
			_, fits = v.(map[string]any)
		}
		if fits {
			return ""
		}
	}
	return fmt.Sprintf("%v is no %v", v, arg)
}

func evaluateObject(s map[string]any, m map[string]any) string {
	known := map[string]bool{}
	branches := []map[string]any{s}
	if all, ok := s["allOf"].([]any); ok {
		for _, a := range all {
			if evaluate(a.(map[string]any)["if"], any(m)) == "" {
				branches = append(branches, a.(map[string]any)["then"].(map[string]any))
			}
		}
	}
	for _, b := range branches {
		properties, _ := b["properties"].(map[string]any)
		for name, p := range properties {
			known[name] = true
			if v, ok := m[name]; ok {
				if problem := evaluate(p, v); problem != "" {
					return name + ": " + problem
				}
			}
		}
		required, _ := b["required"].([]any)
		for _, name := range required {
			if _, ok := m[name.(string)]; !ok {
				return "no " + name.(string)
			}
		}
	}
	for name, v := range m {
		if known[name] {
			continue
		}
		if p, ok := s["propertyNames"]; ok {
			if problem := evaluate(p, name); problem != "" {
				return problem
			}
		}
		more, ok := s["additionalProperties"]
		if inner, isSchema := more.(map[string]any); isSchema {
			if problem := evaluate(inner, v); problem != "" {
				return name + ": " + problem
			}
		} else if ok && more == false || s["unevaluatedProperties"] == false {
			return "key " + name
		}
	}
	return ""
}
