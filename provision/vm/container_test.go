package vm

import (
	"slices"
	"testing"

	"bakeoff/provision/vm/manifest"
)

// Some drivers have programs of this machine in the control group of a container, above its
// init process.
func TestDepthBelow(t *testing.T) {
	// The parent of 2 is a supervisor outside of the group, and 5 has lost its parent.
	parents := map[int]int{2: 1, 3: 2, 4: 3, 5: 3, 6: 5, 7: 2, 8: 0}
	for pid, want := range map[int]int{2: 0, 3: 0, 4: 1, 5: 1, 6: 2, 7: 0, 8: 0, 9: 0} {
		if got := depthBelow(parents, pid, 3); got != want {
			t.Errorf("%d is %d below 3, not %d", pid, got, want)
		}
	}
	parents = map[int]int{4: 4, 5: 6, 6: 5} // numbers were reused while they were read
	for pid := range parents {
		if got := depthBelow(parents, pid, 3); got != 0 {
			t.Errorf("%d is %d below 3", pid, got)
		}
	}
}

// Every driver that manifests may name is there.
func TestTechnologies(t *testing.T) {
	var names []string
	for name := range technologies {
		names = append(names, name)
	}
	all := slices.Sorted(slices.Values(slices.Concat(manifest.Docker.DriversOn("linux"),
		manifest.Docker.DriversOn("freebsd"))))
	if slices.Sort(names); !slices.Equal(names, all) {
		t.Errorf("there are %v, and manifests name %v", names, all)
	}
}
