package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
)

func schemaTree(t *testing.T) map[string]any {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(JSONSchema(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is what an editor makes of a file.
func asJSON(t *testing.T, src []byte) (out map[string]any) {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(src, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Editors accept every table that is shipped, and refuse what Parse refuses
// for its shape.
func TestSchemaAgreesWithParse(t *testing.T) {
	schema := schemaTree(t)
	files, err := filepath.Glob("../../examples/published/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if problem := violated(schema, asJSON(t, src)); problem != "" {
			t.Errorf("%s: %s", f, problem)
		}
	}
	good := `{schema: bakeoff/published/v1, title: t, source: {title: s},
		experiment: {repetitions: 5, order: blocks, payload: 4KiB, client: {busy: 0.5}},
		columns: [{name: c, better: higher}], rows: [{name: a, values: {c: 1}}, {name: b, values: {c: {missing: cut off}}}],
		claims: [{text: x, a: a, b: b, column: c, relation: faster}]}`
	at := func(m any, path ...any) any {
		for _, p := range path {
			if i, ok := p.(int); ok {
				m = m.([]any)[i]
			} else {
				m = m.(map[string]any)[p.(string)]
			}
		}
		return m
	}
	if problem := violated(schema, asJSON(t, []byte(good))); problem != "" {
		t.Fatal(problem)
	}
	for name, x := range map[string]struct {
		value any
		path  []any
	}{
		"another schema":        {"bakeoff/lab/v1", []any{"schema"}},
		"an unknown key":        {1, []any{"colums"}},
		"no source":             {nil, []any{"source"}},
		"no rows":               {[]any{}, []any{"rows"}},
		"a name that is none":   {"A B", []any{"columns", 0, "name"}},
		"a direction":           {"up", []any{"columns", 0, "better"}},
		"a relation":            {"nicer", []any{"claims", 0, "relation"}},
		"a share beyond one":    {1.5, []any{"experiment", "client", "busy"}},
		"an order":              {"any", []any{"experiment", "order"}},
		"no number of runs":     {"some", []any{"experiment", "repetitions"}},
		"a size without a unit": {"4069 bytes", []any{"experiment", "payload"}},
		"a figure with commas":  {"4,005", []any{"rows", 0, "values", "c"}},
	} {
		table := asJSON(t, []byte(good))
		parent := at(table, x.path[:len(x.path)-1]...).(map[string]any)
		key := x.path[len(x.path)-1].(string)
		if parent[key] = x.value; x.value == nil {
			delete(parent, key)
		}
		if violated(schema, table) == "" {
			t.Errorf("%s: the schema accepts it", name)
		}
		src, err := json.Marshal(table) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("x", src); err == nil {
			t.Errorf("%s: Parse accepts it", name)
		}
	}
}

// A rule for a type or key that is not there would be a rule for nothing.
func TestSchemaRulesAreOfKeys(t *testing.T) {
	known := map[string]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			for _, f := range reflect.VisibleFields(t) {
				if key := f.Tag.Get("yaml"); key != "" && key != "-" {
					known[t.Name()+"."+key] = true
					walk(f.Type)
				}
			}
		}
	}
	walk(reflect.TypeFor[Table]())
	for rule := range rules {
		if !known[rule] {
			t.Errorf("a rule for %s", rule)
		}
	}
	for name, keys := range needed {
		for _, key := range keys {
			if !known[name+"."+key] {
				t.Errorf("%s.%s is needed, and does not exist", name, key)
			}
		}
	}
}

// violated evaluates the keywords in use, and returns what does not hold.
func violated(schema map[string]any, v any) string {
	if alternatives, ok := schema["anyOf"].([]any); ok {
		for _, s := range alternatives {
			if violated(s.(map[string]any), v) == "" {
				return ""
			}
		}
		return fmt.Sprintf("%v is none of what it can be", v)
	}
	if c, ok := schema["const"]; ok && c != v {
		return fmt.Sprintf("%v is not %v", v, c)
	}
	if e, ok := schema["enum"].([]any); ok && !slices.Contains(e, v) {
		return fmt.Sprintf("%v is not one of %v", v, e)
	}
	if !typed(schema["type"], v) {
		return fmt.Sprintf("%v is no %v", v, schema["type"])
	}
	switch v := v.(type) {
	case string:
		if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Sprintf("%q does not match %s", v, p)
		}
	case float64:
		return outside(schema, v)
	case []any:
		if n, ok := schema["minItems"].(float64); ok && len(v) < int(n) {
			return fmt.Sprintf("%d items", len(v))
		}
		for _, x := range v {
			if p := violated(schema["items"].(map[string]any), x); p != "" {
				return p
			}
		}
	case map[string]any:
		return objectViolated(schema, v)
	}
	return ""
}

func objectViolated(schema, v map[string]any) string {
	if need, ok := schema["required"].([]any); ok {
		for _, k := range need {
			if _, ok := v[k.(string)]; !ok {
				return fmt.Sprintf("%v is missing", k)
			}
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for k, x := range v {
		s, ok := properties[k].(map[string]any)
		if !ok {
			if s, ok = schema["additionalProperties"].(map[string]any); !ok {
				return "unknown key " + k
			}
		}
		if p := violated(s, x); p != "" {
			return k + ": " + p
		}
	}
	return ""
}

func outside(schema map[string]any, v float64) string {
	for key, bad := range map[string]func(limit float64) bool{
		"minimum": func(l float64) bool { return v < l }, "maximum": func(l float64) bool { return v > l },
		"exclusiveMinimum": func(l float64) bool { return v <= l },
		"exclusiveMaximum": func(l float64) bool { return v >= l },
	} {
		if l, ok := schema[key].(float64); ok && bad(l) {
			return fmt.Sprintf("%v is beyond %s %v", v, key, l)
		}
	}
	return ""
}

func typed(types, v any) bool {
	if list, ok := types.([]any); ok {
		return slices.ContainsFunc(list, func(t any) bool { return typed(t, v) })
	}
	switch types {
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "number":
		_, ok := v.(float64)
		return ok
	case "integer":
		f, ok := v.(float64)
		return ok && f == float64(int64(f))
	}
	return true // no type is asked for
}
