package guests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/provision/vm"
)

// A machine sees the disks that an update adds, grows and removes, and starts from its first
// one all the while. An update is refused while the machine runs.
func TestDisksOfMachine(t *testing.T) {
	h := home(t)
	manifest := fmt.Sprintf(`{"brand": "microvm", "alias": "d", "image": %q, "ram": 128, "disks": [{"size": 8}]}`,
		service(t, "web"))
	path := file(t, "d.json", manifest)
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
	change := func(format string, args ...any) string {
		return file(t, "u.json", fmt.Sprintf(format, args...))
	}
	grow := change(`{"update_disks": [{"path": %q, "size": 32}], "add_disks": [{"size": 16}]}`,
		guest(t, h, "d").Disks[0].Path)
	refused(t, h, 1, "only while the guest is stopped; run `bakeoff vm stop d`", "update", "d", "-f", grow)
	do(t, h, "stop", "d")
	do(t, h, "validate", "update", "d", "-f", grow)
	do(t, h, "update", "d", "-f", grow)
	if out := do(t, h, "list", "-H", "-o", "disks.0.size,disks.1.size", "disks.*.size=16"); out != "32  16" {
		t.Errorf("list prints %q", out)
	}
	do(t, h, "start", "d")
	check("16", "32")
	do(t, h, "stop", "d")
	refused(t, h, 1, "the file does not describe it", "apply", "-f", path)
	do(t, h, "update", "d", "-f", change(`{"remove_disks": [%q]}`, guest(t, h, "d").Disks[0].Path))
	do(t, h, "start", "d")
	check("16")
	if g := guest(t, h, "d"); g.State != vm.Running || len(g.Disks) != 1 {
		t.Errorf("%+v", g)
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}
