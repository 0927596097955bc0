package agent

import (
	"os"
	"strings"
	"testing"

	"bakeoff/reach/wire"
)

func TestSubject(t *testing.T) {
	file := t.TempDir() + "/f"
	var out strings.Builder
	run := func(args ...string) int {
		out.Reset()
		return Main(append([]string{"subject"}, args...), nil, &out, &out, nil)
	}
	if code := run("fill", file, "4096"); code != wire.ExitOK {
		t.Errorf("fill: %d %s", code, out.String())
	}
	if s, err := os.Stat(file); err != nil || s.Size() != 4096 {
		t.Errorf("%v, %v", s, err)
	}
	if code := run("cpus"); code != wire.ExitOK || strings.TrimSpace(out.String()) == "0" {
		t.Errorf("cpus: %d %s", code, out.String())
	}
	if code := run("hog", "1048576"); code != wire.ExitOK || out.String() != "held 1 MiB\n" {
		t.Errorf("hog: %d %s", code, out.String())
	}
	for _, bad := range [][]string{nil, {"fly"}, {"fill", file}, {"cpus", "2"}} {
		if code := run(bad...); code != wire.ExitInvalid {
			t.Errorf("subject %q: %d", bad, code)
		}
	}
}
