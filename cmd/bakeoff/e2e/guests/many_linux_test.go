package guests

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// manyContainers and manyMachines are how many guests are created at once. BAKEOFF_TEST_MACHINES
// sets another number of machines.
const (
	manyContainers = 50
	manyMachines   = 8
)

// Many guests are created at once. Each has an identity, a process and a port of its own, one
// list shows all of them, and nothing of them is left when they are deleted.
func TestManyContainers(t *testing.T) {
	h := home(t)
	createMany(t, h, manyContainers, tiny(t, h), "--brand", "docker", "--memory", "32MiB")
}

func TestManyMachines(t *testing.T) {
	h := home(t)
	n := manyMachines
	if text := os.Getenv("BAKEOFF_TEST_MACHINES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("BAKEOFF_TEST_MACHINES=%s, %v", text, err)
		}
	}
	createMany(t, h, n, tiny(t, h), "--brand", "microvm", "--accel", "tcg", "--in-memory", "--memory", "128MiB")
}

// A guest that is started again whenever it ends stays stopped when a command has stopped it.
func TestStopEndsRestarts(t *testing.T) {
	h := networkHome(t)
	do(t, h, "run", tiny(t, h), "--brand", "docker", "--memory", "32MiB", "--name", "a", "--restart", "always")
	do(t, h, "stop", "a")
	if g := guest(t, h, "a"); g.State != vm.Stopped || g.Supervisor != 0 {
		t.Errorf("it is %s and has the supervisor %d: %s", g.State, g.Supervisor, g.Why)
	}
	do(t, h, "delete", "a")
	// on-failure starts it again after an error only, with what it has written.
	dir := box(t, h, "twice", []string{"/bin/busybox", "sh", "-c",
		"echo starts; test -e /once && exit 0; /bin/busybox touch /once; exit 1"})
	do(t, h, "run", dir, "--brand", "docker", "--memory", "32MiB", "--name", "b", "--restart", "on-failure")
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		g := guest(t, h, "b")
		if g.State == vm.Stopped && g.Supervisor == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("it is %s: %s", g.State, g.Why)
		}
	}
	if got := do(t, h, "logs", "b"); got != "starts\nstarts" {
		t.Errorf("it printed %q", got)
	}
	do(t, h, "delete", "b")
	// An update while it runs is enough.
	dir = box(t, h, "sleeps", []string{"/bin/busybox", "sh", "-c", "echo starts; exec /bin/busybox sleep 1000"})
	do(t, h, "run", dir, "--brand", "docker", "--memory", "32MiB", "--name", "c")
	if at := moments(t, h, "c", file(t, "u.json", `{"restart": "on-failure"}`)); at["restart"] != manifest.Live {
		t.Errorf("the change takes effect %v", at)
	}
	do(t, h, "kill", "-s", "KILL", "c")
	for late := time.Now().Add(time.Minute); do(t, h, "logs", "c") != "starts\nstarts"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it printed %q", do(t, h, "logs", "c"))
		}
	}
	do(t, h, "delete", "c")
	leavesNothing(t, h)
}

func createMany(t *testing.T, h e2e.Home, n int, args ...string) {
	t.Helper()
	args = append([]string{"vm", "run", "-p", "80"}, args...)
	do(t, h, append(slices.Clone(args[1:]), "--name", "first")...) // builds it
	errs := make(chan error, n)
	for i := range n - 1 {
		go func() {
			out, err := h.Command(append(slices.Clone(args), "--name", fmt.Sprint("guest", i))...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			errs <- err
		}()
	}
	for range n - 1 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	start := time.Now()
	all := guests(t, h)
	t.Logf("the list took %v", time.Since(start))
	seen := map[string]string{}
	for _, g := range all {
		if g.State != vm.Running {
			t.Errorf("%s is %s: %s", g.Alias, g.State, g.Why)
		}
		facts := []string{"uuid " + g.UUID, "alias " + g.Alias, fmt.Sprint("supervisor ", g.Supervisor)}
		for _, at := range g.Reached {
			facts = append(facts, "port "+at)
		}
		if len(facts) != 4 {
			t.Errorf("%s is reached at %q", g.Alias, g.Reached)
		}
		for _, fact := range facts {
			if other, ok := seen[fact]; ok {
				t.Errorf("%s and %s have the same %s", other, g.Alias, fact)
			}
			seen[fact] = g.Alias
		}
	}
	if len(all) != n {
		t.Errorf("%d guests are listed, and %d were created", len(all), n)
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}
