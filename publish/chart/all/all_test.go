package all

import (
	"os"
	"slices"
	"testing"
)

// Every folder beside this one is a kind of figure, and is listed.
func TestListIsComplete(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var folders, listed []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "all" && e.Name() != "charttest" {
			folders = append(folders, e.Name())
		}
	}
	for _, d := range Docs() {
		listed = append(listed, d.Name)
		if d.Title == "" || d.Read == "" {
			t.Errorf("%s does not say what it is and how to read it", d.Name)
		}
	}
	if !slices.Equal(folders, listed) {
		t.Errorf("folders %q, listed %q", folders, listed)
	}
}
