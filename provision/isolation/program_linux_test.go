package isolation

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// On the controller's own machine a program that needs nothing of `enter` starts
// without an agent, and only if the setup succeeded.
func TestProgramWithoutAgent(t *testing.T) {
	run := func(g wire.Setup, argv ...string) error {
		e := &Env{Host: local.Conn{}, Spec: driver.Spec{Label: "x-none", Agent: "/nonexistent/agent"}}
		return e.SetUpThenRun(t.Context(), g, Program{Argv: argv})
	}
	made := filepath.Join(t.TempDir(), "made")
	if err := run(wire.Setup{Root: &wire.Root{At: "relative"}}, "touch", made); !fault.Is(err, fault.Invalid) {
		t.Errorf("after a failed setup: %v", err)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("the program started after a failed setup")
	}
	if err := run(wire.Setup{}, "touch", made); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
	if err := run(wire.Setup{}, "no-such-program"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing program: %v", err)
	}
	if err := run(wire.Setup{}, "sh", "-c", "echo why >&2; exit 3"); !fault.Is(err, fault.Lab) ||
		err.Error() != "exit code 3: why" {
		t.Errorf("a program that fails: %v", err)
	}
}

// A program without an agent before it starts in the network namespace and in all
// control groups of the environment, with its variables. The controller stays where
// it is.
func TestProgramInPlace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	spec := driver.Spec{Label: fmt.Sprintf("place-%d", os.Getpid()), Dir: t.TempDir(), Agent: "/nonexistent/agent",
		CPUSet: []int{0}}
	e, err := New(t.Context(), local.Conn{}, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := e.Limit(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := where(t, "/proc/self/task/*/cgroup")
	var out strings.Builder
	p := Program{Netns: true, Group: true, Env: []string{"WORD=two words"},
		Argv: []string{"sh", "-c", `cat /proc/$$/cgroup; stat -Lc %i /proc/$$/ns/net "$0"; echo "$WORD"`, e.Netns()}}
	own, err := netns.Describe(nil, spec.Label, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SetUpThen(t.Context(), wire.Setup{Network: &own}, func(host conn.Conn, cmd conn.Cmd) error {
		cmd.Stdout = &out
		exit, err := host.Exec(t.Context(), cmd)
		if err == nil && !exit.OK() {
			err = fmt.Errorf("%v", exit)
		}
		return err
	}, p); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	if last < 3 || lines[last] != "two words" || lines[last-1] != lines[last-2] {
		t.Fatalf("%s", out.String())
	}
	in := 0
	for _, l := range lines[:last-2] {
		if strings.HasSuffix(l, ":"+cgroup.Path(spec.Label)) {
			in++
		}
	}
	if in != len(e.Group.Dirs()) {
		t.Errorf("in %d of %d groups:\n%s", in, len(e.Group.Dirs()), out.String())
	}
	if after := where(t, "/proc/self/task/*/cgroup"); after != before {
		t.Errorf("threads of the controller were in\n%s\nand are in\n%s", before, after)
	}
	p.Argv = []string{"no-such-program"}
	if err := e.SetUpThenRun(t.Context(), wire.Setup{}, p); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing program: %v", err)
	}
	gone, err := e.Group.Join([]string{"echo", "started"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Group.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.CommandContext(t.Context(), gone[0], gone[1:]...).CombinedOutput(); err == nil ||
		strings.Contains(string(text), "started") {
		t.Errorf("in a group that does not exist: %v, %s", err, text)
	}
}

// where returns the different contents of the files that match a pattern.
func where(t *testing.T, pattern string) string {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := map[string]bool{}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil { // a thread may have ended
			all[string(b)] = true
		}
	}
	return fmt.Sprint(all)
}
