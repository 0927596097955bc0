package manifest

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/yamltree"
)

// The schema that editors use accepts the example and refuses what Parse
// refuses for its shape. A small evaluator of the keywords in use stands in
// for an editor's.
func TestSchemaAgreesWithParse(t *testing.T) {
	var schema any
	if err := json.Unmarshal(JSONSchema(catalogue()), &schema); err != nil {
		t.Fatal(err)
	}
	good := func() map[string]any {
		r := &yamltree.Reporter{File: "x"}
		root := yamltree.Parse(example(t), format, r)
		if root == nil {
			t.Fatal(r.Err())
		}
		return plain(root).(map[string]any)
	}
	if problem := evaluate(schema, good()); problem != "" {
		t.Fatalf("the schema refuses the example: %s", problem)
	}
	contender := func(lab map[string]any, i int) map[string]any {
		return lab["contenders"].([]any)[i].(map[string]any)
	}
	cell := func(lab map[string]any) map[string]any { return lab["cells"].([]any)[1].(map[string]any) }
	for name, break_ := range map[string]func(map[string]any){
		"unknown key":               func(l map[string]any) { l["desing"] = nil },
		"another driver's option":   func(l map[string]any) { contender(l, 0)["runtime"] = "crun" },
		"a value an option has not": func(l map[string]any) { contender(l, 1)["runtime"] = "podman" },
		"no baseline":               func(l map[string]any) { delete(l, "baseline") },
		"a name that is none":       func(l map[string]any) { contender(l, 0)["name"] = "A B" },
		"a parameter that is none":  func(l map[string]any) { cell(l)["params"].(map[string]any)["x"] = 1.0 },
		"a metric that is none":     func(l map[string]any) { cell(l)["primary"] = []any{"latency"} },
		"a bound":                   func(l map[string]any) { cell(l)["params"].(map[string]any)["connections"] = 0.0 },
		"memory that is no size":    func(l map[string]any) { contender(l, 2)["memory"] = "much" },
		"a volume without a backing": func(l map[string]any) {
			contender(l,
				2)["volumes"] = map[string]any{"/data": map[string]any{}}
		},
	} {
		l := good()
		break_(l)
		if evaluate(schema, l) == "" {
			t.Errorf("%s: the schema accepts it", name)
		}
		src, err := json.Marshal(l) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("x", src, catalogue(), ""); err == nil {
			t.Errorf("%s: Parse accepts it", name)
		}
	}
}

// plain makes what encoding/json would make of a tree.
func plain(n *yamltree.Node) any {
	switch n.Kind {
	case yamltree.Mapping:
		out := map[string]any{}
		for _, e := range n.Entries {
			out[e.Key.Text] = plain(e.Value)
		}
		return out
	case yamltree.Sequence:
		out := []any{}
		for _, item := range n.Items {
			out = append(out, plain(item))
		}
		return out
	}
	var v any
	if text := strings.TrimPrefix(n.Text, "."); !n.Quoted &&
		json.Unmarshal([]byte(strings.Replace(n.Text, text, text, 1)), &v) == nil {
		return v
	}
	if !n.Quoted && strings.HasPrefix(n.Text, ".") && json.Unmarshal([]byte("0"+n.Text), &v) == nil {
		return v
	}
	return n.Text
}

func TestReferenceNamesEverything(t *testing.T) {
	page := Reference(catalogue())
	for _, want := range []string{"## `contenders[]`", "`driver: qemu`", "| `machine` | `microvm` or `q35` | " +
		"`microvm` | The machine. |",
		"`workload: http`", "`throughput`, `cpu-per-request`", "## `hosts.NAME`", "## `contenders[].volumes.NAME`",
		"## `design`", "whole number from 1 to 1000"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/reference.md", []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("testdata/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	if page != string(golden) {
		t.Error("the page is not testdata/reference.md: look at the difference, then go test -update")
	}
}

// Every default in the shapes is what a file that says nothing resolves to.
func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	l, err := Parse("x", minimal(""), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	for _, f := range designShape().fields {
		if f.def != "" {
			written.WriteString(f.name + ": " + f.def + ", ")
		}
	}
	same, err := Parse("x", minimal("design: {"+written.String()+"}\ndefaults: {cpus: 1, memory: 512MiB}\n"), catalogue(),
		"")
	if err != nil {
		t.Fatal(err)
	}
	l.Source, same.Source = nil, nil
	for _, lab := range []*Lab{l, same} {
		lab.Contenders[0].Where = nil // what is left out has no place
		lab.Design.Written = false
	}
	if !reflect.DeepEqual(l, same) {
		t.Errorf("written out the defaults give %+v, left out %+v", same, l)
	}
}

// A text that may be true or false is also the boolean that YAML makes of it.
func TestSchemaOfTextsThatLookLikeBooleans(t *testing.T) {
	schema, err := json.Marshal(enum("auto", "true").schema())
	if err != nil || string(schema) != `{"enum":["auto","true",true]}` {
		t.Errorf("%s, %v", schema, err)
	}
}
