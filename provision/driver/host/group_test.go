package host_test

import (
	"path"
	"strings"
	"testing"

	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/host"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
)

// However a program has got there, it is in every group that limits or counts.
func TestInEveryGroup(t *testing.T) {
	e := drivertest.Create(t, host.Driver{}, drivertest.Options{}).(*isolation.Env)
	out, err := conn.Output(t.Context(), e, "cat", "/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	label := path.Base(e.Group.Path())
	for _, dir := range e.Group.Dirs() {
		hierarchy := path.Base(path.Dir(path.Dir(dir)))
		if hierarchy == "unified" || hierarchy == "cgroup" {
			hierarchy = "0::"
		}
		in := false
		for line := range strings.Lines(string(out)) {
			in = in || strings.Contains(line, hierarchy) && strings.HasSuffix(strings.TrimSpace(line), "/"+label)
		}
		if !in {
			t.Errorf("not in %s:\n%s", dir, out)
		}
	}
}
