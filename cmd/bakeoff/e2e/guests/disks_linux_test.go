package guests

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// A machine sees the disks that an update adds, grows and removes, and starts from its first
// one all the while.
func TestDisksOfMachine(t *testing.T) {
	h := home(t)
	text := fmt.Sprintf(`{"brand": "microvm", "alias": "d", "image": %q, "ram": 128, "disks": [{"size": 8}]}`,
		service(t, "web"))
	path := file(t, "d.json", text)
	do(t, h, "apply", "-f", path)
	// sizes are those of the disks in the machine but the first one, in MiB.
	sizes := func() (out []string) {
		t.Helper()
		all := strings.Fields(do(t, h, "exec", "d", "--", "sh", "-c", "cat /sys/block/vd*/size"))
		for _, text := range all[min(1, len(all)):] {
			var sectors int
			if _, err := fmt.Sscan(text, &sectors); err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprint(sectors>>11))
		}
		slices.Sort(out)
		return out
	}
	check := func(want ...string) {
		t.Helper()
		if got := sizes(); !slices.Equal(got, want) {
			t.Errorf("the machine has the disks %q instead of %q", got, want)
		}
	}
	check("8")
	seen := func(want string) { // the kernel of the machine reads the new size after QEMU's interrupt
		t.Helper()
		for end := time.Now().Add(time.Minute); !slices.Equal(sizes(), []string{want}); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the machine has the disks %q instead of %q", sizes(), want)
			}
		}
	}
	change := func(format string, args ...any) string {
		return file(t, "u.json", fmt.Sprintf(format, args...))
	}
	grow := change(`{"update_disks": [{"path": %q, "size": 32}], "add_disks": [{"size": 16}]}`,
		guest(t, h, "d").Disks[0].Path)
	// The machine sees the new size at once, and the new disk at its next boot: microvm has no slots.
	at := moments(t, h, "d", grow)
	if at["disks.0.size"] != manifest.Live || at["disks.1.size"] != manifest.NextBoot {
		t.Errorf("the changes take effect %v", at)
	}
	if out := do(t, h, "list", "-H", "-o", "disks.0.size,disks.1.size", "disks.*.size=16"); out != "32  16" {
		t.Errorf("list prints %q", out)
	}
	seen("32")
	refused(t, h, 1, "a change of disks waits for the next boot", "create-snapshot", "d", "a")
	do(t, h, "reboot", "d")
	check("16", "32")
	removed := guest(t, h, "d").Disks[0].Path
	if at := moments(t, h, "d", change(`{"remove_disks": [%q]}`, removed)); at["disks.0.size"] != manifest.NextBoot {
		t.Errorf("the changes take effect %v", at)
	}
	check("16", "32")
	do(t, h, "stop", "d")
	none := file(t, "none.json", strings.Replace(text, `, "disks": [{"size": 8}]`, "", 1))
	refused(t, h, 1, "the file does not describe it", "apply", "-f", none)
	do(t, h, "start", "d")
	check("16")
	if _, err := os.Stat(removed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the removed disk: %v", err)
	}
	do(t, h, "stop", "d")
	stopped := change(`{"update_disks": [{"path": %q, "size": 24}], "add_disks": [{"size": 4}]}`,
		guest(t, h, "d").Disks[0].Path)
	do(t, h, "validate", "update", "d", "-f", stopped)
	do(t, h, "update", "d", "-f", stopped)
	do(t, h, "start", "d")
	check("24", "4")
	if g := guest(t, h, "d"); g.State != vm.Running || len(g.Disks) != 2 {
		t.Errorf("%+v", g)
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}

// A PC gets disks while it runs, up to the number of its slots, and they grow. A snapshot keeps them, with
// the memory of the machine, and a rollback brings the machine back to its memory.
func TestDisksOfRunningPC(t *testing.T) {
	h, web := home(t), service(t, "web")
	do(t, h, "create", "-f", file(t, "d.json",
		fmt.Sprintf(`{"brand": "bhyve", "alias": "d", "image": %q, "ram": 128}`, web)))
	sizes := func() string { // without the root; Linux names disks in the order in which it finds them
		out := do(t, h, "exec", "d", "--", "sh", "-c",
			"for d in /sys/block/vd[b-z]; do echo $(($(cat $d/size) >> 11)); done | sort -n")
		return strings.ReplaceAll(out, "\n", " ")
	}
	seen := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); sizes() != want; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the machine has the disks %q instead of %q", sizes(), want)
			}
		}
	}
	change := func(format string, args ...any) string { return file(t, "u.json", fmt.Sprintf(format, args...)) }
	at := moments(t, h, "d", change(`{"add_disks": [{"size": 8}], "cpu_cap": 150}`))
	if at["disks.0.size"] != manifest.Live || at["cpu_cap"] != manifest.Live {
		t.Errorf("the changes take effect %v", at)
	}
	seen("8")
	do(t, h, "exec", "d", "--", "sh", "-c", "echo kept >/dev/vdb; echo kept >/run/kept")
	do(t, h, "create-snapshot", "d", "a")
	if at := moments(t, h, "d", change(`{"add_disks": [{"size": 4}, {"size": 2}]}`)); at["disks.2.size"] != manifest.Live {
		t.Errorf("the changes take effect %v", at)
	}
	seen("2 4 8")
	do(t, h, "exec", "d", "--", "sh", "-c", "echo lost >/dev/vdb; rm /run/kept")
	do(t, h, "rollback-snapshot", "d", "a")
	seen("8")
	if out := do(t, h, "exec", "d", "--", "sh", "-c", "cat /run/kept; head -n 1 /dev/vdb"); out != "kept\nkept" {
		t.Errorf("after the rollback, the machine has %q", out)
	}
	path := guest(t, h, "d").Disks[0].Path
	if at := moments(t, h, "d", change(`{"update_disks": [{"path": %q, "size": 16}]}`, path)); at["disks.0.size"] !=
		manifest.Live {
		t.Errorf("the changes take effect %v", at)
	}
	seen("16")
	do(t, h, "reboot", "d")
	seen("16")
	// A dry run of apply predicts what the update then does.
	foreseen := foresee(t, h, change(`{"brand": "bhyve", "alias": "d", "image": %q, "ram": 128, "cpu_cap": 200,
		"disks": [{"size": 24}, {"size": 1}, {"size": 2}, {"size": 3}, {"size": 5, "model": "ahci"}]}`, web))
	for path, want := range map[string]manifest.When{"disks.0.size": manifest.Live, "disks.1.size": manifest.Live,
		"disks.3.size": manifest.Live, "disks.4.size": manifest.NextBoot, "cpu_cap": manifest.Live} {
		if foreseen[path] != want {
			t.Errorf("apply --dry-run predicts that %s takes effect %q, want %q", path, foreseen[path], want)
		}
	}
	seen("16")
	at = moments(t, h, "d",
		change(`{"add_disks": [{"size": 1}, {"size": 2}, {"size": 3}, {"size": 5, "model": "ahci"}]}`))
	if at["disks.1.size"] != manifest.Live || at["disks.3.size"] != manifest.Live ||
		at["disks.4.size"] != manifest.NextBoot {
		t.Errorf("the changes take effect %v", at)
	}
	seen("1 2 3 16")
	removeGuests(t, h)
	leavesNothing(t, h)
}

// An update of the disks of a running machine that is killed, or whose supervisor is killed, changes all of
// them or none. The machine then starts with the disks of its manifest.
func TestDisksOfKilledUpdate(t *testing.T) {
	h := home(t)
	do(t, h, "create", "-f", file(t, "d.json", fmt.Sprintf(`{"brand": "microvm", "alias": "d", "image": %q, "ram": 128,
		"disks": [{"size": 8}]}`, service(t, "web"))))
	n := 5
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		n = manyKills
	}
	size, changed := 8, 0
	for i := range n {
		before := guest(t, h, "d")
		change := file(t, "u.json", fmt.Sprintf(`{"update_disks": [{"path": %q, "size": %d}], "add_disks": [{"size": 4}],
			"remove_disks": [%q], "set_tags": {"n": %d}}`, before.Disks[0].Path, size+8,
			before.Disks[len(before.Disks)-1].Path, i))
		if len(before.Disks) == 1 {
			change = file(t, "u.json", fmt.Sprintf(`{"update_disks": [{"path": %q, "size": %d}], "add_disks": [{"size": 4}],
				"set_tags": {"n": %d}}`, before.Disks[0].Path, size+8, i))
		}
		c := h.Command("vm", "update", "d", "-f", change)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(200 * time.Millisecond)) // any moment of the update
		if i%2 == 0 {
			_ = c.Process.Kill()
		} else {
			killProcesses(t, h.Dir, "vm\x00supervise")
		}
		_ = c.Wait() // it may fail: it or its supervisor was killed
		after := guest(t, h, "d")
		if fmt.Sprint(after.Tags["n"]) == fmt.Sprint(i) {
			changed++
			size += 8
		}
		want := 1
		if changed > 0 {
			want = 2
		}
		if len(after.Disks) != want || after.Disks[0].Size != size {
			t.Fatalf("kill %d: after %+v, the guest has %+v", i, before.Disks, after.Disks)
		}
		do(t, h, "stop", "-F", "d")
		do(t, h, "start", "d")
		got := do(t, h, "exec", "d", "--", "sh", "-c", "for d in /sys/block/vd?; do echo $(($(cat $d/size) >> 11)); done")
		if lines := strings.Split(got, "\n"); len(lines) != want+1 || lines[1] != fmt.Sprint(size) {
			t.Fatalf("kill %d: the machine has %q instead of %+v", i, lines, after.Disks)
		}
		files, err := filepath.Glob(filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", after.UUID, "disk*.qcow2"))
		if err != nil || len(files) != want+1 {
			t.Errorf("kill %d: the files are %q, %v", i, files, err)
		}
	}
	t.Logf("%d of %d updates took place", changed, n)
	removeGuests(t, h)
	leavesNothing(t, h)
}

// moments updates a guest, and returns when each change takes effect.
func moments(t *testing.T, h e2e.Home, name, change string) map[string]manifest.When {
	t.Helper()
	var plan struct{ Changes []manifest.Change }
	if err := json.Unmarshal([]byte(do(t, h, "update", name, "-f", change, "--json")), &plan); err != nil {
		t.Fatal(err)
	}
	return momentsOf(plan.Changes)
}

// foresee returns when each change of a guest would take effect, as apply --dry-run predicts it.
func foresee(t *testing.T, h e2e.Home, text string) map[string]manifest.When {
	t.Helper()
	var plan struct {
		Guests []struct{ Changes []manifest.Change }
	}
	if err := json.Unmarshal([]byte(do(t, h, "apply", "-n", "--json", "-f", text)), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Guests) != 1 {
		t.Fatalf("%+v", plan)
	}
	return momentsOf(plan.Guests[0].Changes)
}

func momentsOf(changes []manifest.Change) map[string]manifest.When {
	out := map[string]manifest.When{}
	for _, c := range changes {
		out[c.Path] = c.When
	}
	return out
}
