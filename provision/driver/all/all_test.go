package all

import (
	"encoding/json"
	"strings"
	"testing"

	"bakeoff/lab/manifest"
)

// A driver's options stand next to the contender's own keys in the lab file: one
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

// What bakeoff suggests instead of another program's name is a driver,
// and no name stands for two, or hides a driver that there is.
func TestOtherNamesLeadToDrivers(t *testing.T) {
	names, seen := map[string]bool{}, map[string]string{}
	for _, d := range Drivers() {
		names[d.Doc().Name] = true
	}
	for _, d := range Drivers() {
		doc := d.Doc()
		for other, instead := range doc.Also {
			if names[other] || seen[other] != "" || other != strings.ToLower(other) {
				t.Errorf("%s: %q is a driver, stands for %q too, or is not in lower case", doc.Name, other, seen[other])
			}
			seen[other] = doc.Name
			if first, _, _ := strings.Cut(instead, ","); first != doc.Name {
				t.Errorf("%s: for %q the suggestion is %q", doc.Name, other, instead)
			}
		}
	}
	if len(seen) == 0 {
		t.Error("no driver has another name")
	}
}
