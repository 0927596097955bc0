package all

import (
	"encoding/json"
	"testing"

	"bakeoff/manifest"
)

// A driver's options stand beside the contender's own keys in the lab file: one
// of the same name would get what was written for the other.
func TestNoOptionIsAKeyOfTheContender(t *testing.T) {
	var schema struct {
		Properties struct {
			Contenders struct {
				Items struct{ Properties map[string]any }
			}
		}
	}
	if err := json.Unmarshal(manifest.JSONSchema(manifest.Catalogue{}), &schema); err != nil {
		t.Fatal(err)
	}
	keys := schema.Properties.Contenders.Items.Properties
	if keys["host"] == nil || keys["system"] == nil {
		t.Fatalf("the keys of a contender are %v", keys)
	}
	for _, d := range Drivers() {
		doc := d.Doc()
		seen := map[string]bool{}
		for _, o := range doc.Options {
			if keys[o.Name] != nil || seen[o.Name] {
				t.Errorf("driver %s: the option %s has the name of another key", doc.Name, o.Name)
			}
			seen[o.Name] = true
		}
	}
}
