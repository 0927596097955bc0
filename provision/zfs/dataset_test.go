package zfs

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestDatasetsAt(t *testing.T) {
	const list = "tank\t/tank\ntank/jails/b1\t/var/a b/root\ntank/vm/b1\t-\ntank/b1x\t/x\nb1\n"
	for mountpoint, want := range map[string][]string{"/var/a b/root": {"tank/jails/b1"}, NoMountpoint: {"tank/vm/b1"},
		"/x": nil} {
		if got := datasetsAt(list, "b1", mountpoint); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", mountpoint, got, want)
		}
	}
}

// What is destroyed has the name of the environment, whatever the host prints.
func FuzzDatasetsAt(f *testing.F) {
	f.Add("tank/b1\t/x\n", "b1")
	f.Add("tank/b1\t-\ttank\n\t\n", "")
	f.Fuzz(func(t *testing.T, list, name string) {
		for _, d := range datasetsAt(list, name, "/x") {
			if path.Base(d) != name || !strings.Contains(list, d+"\t/x") {
				t.Errorf("%q in %q", d, list)
			}
		}
	})
}
