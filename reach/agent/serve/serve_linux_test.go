package serve

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"bakeoff/reach/conn"
)

// A program starts in the control group that was asked for, also over a wire.
func TestServeStartsInGroup(t *testing.T) {
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		root += "/unified"
	}
	name := fmt.Sprintf("bo-agent-%d", os.Getpid())
	if err := os.Mkdir(root+"/"+name, 0o755); err != nil {
		t.Skip("needs root and control groups of version 2:", err)
	}
	t.Cleanup(func() { os.Remove(root + "/" + name) })
	out, _, exit := execIn(t, connect(t, Options{}, nil), conn.Cmd{Argv: []string{"cat", "/proc/self/cgroup"},
		Group: root + "/" + name})
	if want := "0::/" + name + "\n"; !exit.OK() || !strings.Contains(out, want) {
		t.Errorf("%v, in %q; want %q", exit, out, want)
	}
}
