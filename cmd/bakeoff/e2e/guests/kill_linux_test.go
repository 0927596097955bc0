package guests

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// kills is how often something is killed, and manyKills how often with BAKEOFF_TEST_LONG.
const kills, manyKills = 6, 100

// Commands, supervisors and QEMU are killed at random moments of create, update, start, stop,
// snapshot, rollback and delete. There are never two of a guest, and never a half of one: all that exists is
// listed, all that is listed can be started and deleted, and at the end nothing is left.
func TestKilledAtAnyMoment(t *testing.T) {
	h := home(t)
	n := kills
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		n = manyKills
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BAKEOFF_TEST_SEED"); text != "" { // of a run that failed
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("BAKEOFF_TEST_SEED=%d", seed)
	k := killer{Home: h, r: rand.New(rand.NewPCG(seed, 0)), sources: [][]string{
		{kernelOf(t, h, service(t, "web")), "--brand", "microvm", "--accel", "tcg", "--memory", "64MiB"},
		{tiny(t, h), "--brand", "docker", "--memory", "32MiB"}}}
	for _, driver := range []string{manifest.Nspawn, manifest.LXC} {
		needsDriver(t, driver)
		k.sources = append(k.sources, append(slices.Clone(k.sources[1]), "--driver", driver))
	}
	do(t, h, append([]string{"run", "--rm"}, k.sources[1]...)...) // builds it, so that this is not what is killed
	removeGuests(t, h)
	done := map[string]int{}
	for range n {
		done[k.killOne(t)]++
		k.check(t)
	}
	t.Logf("killed during %v", done)
	for _, g := range guests(t, h) {
		// A kernel without a root ends its machine, sometimes before bakeoff has seen it run.
		starts := func(args ...string) {
			t.Helper()
			_, errs, code := h.Bakeoff(t, limit, append([]string{"vm"}, args...)...)
			if code != 0 && !(g.Brand.Machine() && strings.Contains(errs, "the guest powered itself off")) {
				t.Fatalf("vm %q: exit code %d\n%s", args, code, errs)
			}
		}
		starts("start", g.UUID)
		if len(g.Snapshots) > 0 { // a snapshot that is listed is whole
			starts("rollback-snapshot", g.UUID, g.Snapshots[k.r.IntN(len(g.Snapshots))].Name)
		}
		do(t, h, "delete", g.UUID)
	}
	do(t, h, "delete", do(t, h, append([]string{"run"}, k.sources[1]...)...)) // a create removes what a killed one left
	leavesNothing(t, h)
}

type killer struct {
	e2e.Home
	r       *rand.Rand
	sources [][]string
	made    int
	within  time.Duration // of the start of a command; 0 is 400 ms
}

// killOne starts a command and kills it, the supervisor or the guest at a random moment.
func (k *killer) killOne(t *testing.T) string {
	t.Helper()
	all := guests(t, k.Home)
	args := []string{"run"}
	target := vm.Guest{}
	if len(all) > 0 && (k.r.IntN(3) > 0 || len(all) > 4) {
		target = all[k.r.IntN(len(all))]
		all := [][]string{{"start"}, {"stop", "-F"}, {"stop", "-t", "100ms"}, {"delete"}, {"update"}, {"create-snapshot"},
			{"create-snapshot"}, {"rollback-snapshot"}, {"rollback-snapshot"}, {"delete-snapshot"}}
		args = append(slices.Clone(all[k.r.IntN(len(all))]), target.UUID)
		switch args[0] {
		case "update":
			if target.Brand.Machine() && k.r.IntN(2) > 0 {
				args = append(args, "-f", file(t, "disks.json", `{"add_disks": [{"size": 8}]}`))
			} else {
				args = append(args, fmt.Sprint("ram=", 64+k.r.IntN(64)))
			}
		case "create-snapshot":
			args = append(args, fmt.Sprint("s", k.r.IntN(4)))
		case "rollback-snapshot", "delete-snapshot":
			name := "none"
			if n := len(target.Snapshots); n > 0 {
				name = target.Snapshots[k.r.IntN(n)].Name
			}
			args = append(args, name)
		}
	} else {
		k.made++
		args = append(append(args, k.sources[k.r.IntN(len(k.sources))]...), "--name", fmt.Sprint("k", k.made))
	}
	what := []string{"command", "supervisor", "guest"}[k.r.IntN(3)]
	c := k.Command(append([]string{"vm"}, args...)...)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	moment := time.Duration(k.r.Int64N(int64(cmp.Or(k.within, 400*time.Millisecond))))
	time.Sleep(moment)
	switch what {
	case "command":
		_ = c.Process.Kill()
	case "supervisor":
		killProcesses(t, k.Dir, "vm\x00supervise")
	case "guest":
		killProcesses(t, k.Dir, "guest="+target.UUID)
	}
	_ = c.Wait() // it may fail: its guest, or it itself, was killed
	t.Logf("%s after %v of %q: %s", what, moment, args[0], said.String())
	return what + " of " + args[0]
}

// killProcesses kills the processes of a home whose command line has a text. A supervisor
// names no folder, so its environment is read, too.
func killProcesses(t *testing.T, home, text string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(line, []byte(text)) {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
		if err != nil || !bytes.Contains(append(env, line...), []byte(home+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// check asserts that every QEMU belongs to a guest that is listed, and no guest has two. What
// was killed takes a moment to go.
func (k *killer) check(t *testing.T) {
	t.Helper()
	var wrong []string
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		wrong = nil
		all := guests(t, k.Home)
		of := map[string]int{}
		for _, p := range processes(t, "guest=") {
			if !strings.Contains(p, k.Dir+"/") {
				continue
			}
			_, uuid, _ := strings.Cut(p, "guest=")
			uuid, _, _ = strings.Cut(uuid, " ")
			of[uuid]++
			if !slices.ContainsFunc(all, func(g vm.Guest) bool { return g.UUID == uuid }) {
				wrong = append(wrong, "no guest has "+p)
			}
		}
		for _, g := range all {
			switch g.State {
			case vm.Running, vm.Stopped, vm.Failed, vm.Configured:
			default:
				wrong = append(wrong, g.UUID+" is "+string(g.State))
			}
			if g.Brand.Machine() && (of[g.UUID] > 1 || (of[g.UUID] == 1) != (g.State == vm.Running)) {
				wrong = append(wrong, fmt.Sprintf("%s is %s (%s) and has %d processes", g.UUID, g.State, g.Why, of[g.UUID]))
			}
		}
		if wrong == nil {
			return
		}
	}
	t.Errorf("after three minutes: %q", wrong)
}
