package guests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"bakeoff/provision/vm"
)

// events lists what happened to all guests, without the times.
func events(t *testing.T, text string) (out []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e vm.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		what := strings.TrimSpace(string(e.Type) + " " + e.Name)
		for _, c := range e.Changes {
			what += fmt.Sprintf(" %s=%v>%v", c.Path, c.Old, c.New)
		}
		out = append(out, what)
	}
	return out
}

// events prints what happened, and with -f what happens: the same.
func TestEvents(t *testing.T) {
	h := home(t)
	follow := h.Command("vm", "events", "-r", "-j")
	said, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	uuid := do(t, h, "run", tiny(t, h), "--brand", "docker", "--name", "early")
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if lines.Scan(); len(lines.Text()) == 0 || events(t, lines.Text())[0] != "ready" {
		t.Errorf("events -r begins with %q", lines.Text())
	}
	do(t, h, "update", uuid, "alias=late")
	do(t, h, "create-snapshot", uuid, "s")
	do(t, h, "rollback-snapshot", uuid, "s")
	// A follower that does not read until the guest is gone misses nothing.
	if err := follow.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	do(t, h, "stop", uuid)
	want := []string{"modify alias=early>late", "create-snapshot s", "modify state=running>stopping",
		"modify state=stopping>stopped", "rollback-snapshot s", "modify state=stopped>ready", "modify state=ready>running",
		"modify autoboot=true>false", "modify state=running>stopping", "modify state=stopping>stopped"}
	wanted := strings.Join(want, "\n")
	if got := strings.Join(events(t, do(t, h, "events", "-j", "late")+"\n"), "\n"); !strings.HasPrefix(got, "create\n") ||
		!strings.HasSuffix(got, wanted) {
		t.Errorf("events prints\n%s\nwant the end\n%s", got, wanted)
	}
	do(t, h, "delete", uuid)
	if err := follow.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), `"delete"`) {
			break
		}
	}
	if got := strings.Join(events(t, text.String()), "\n"); got != wanted+"\ndelete" {
		t.Errorf("events -r prints\n%s\nwant\n%s", got, wanted)
	}
	if err := follow.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = follow.Wait() // it was interrupted
	if got := events(t, do(t, h, "events", "-j")+"\n"); len(got) != 1 || got[0] != "delete" {
		t.Errorf("after the deletion: %q", got)
	}
	leavesNothing(t, h)
}
