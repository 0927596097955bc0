package manifest

import (
	"slices"
	"strings"
	"testing"
)

// A guest without a driver has the usual one of its brand, and a driver that cannot run it is
// refused with the reason. A guest keeps its driver.
func TestDriver(t *testing.T) {
	for _, b := range Brands {
		all := b.Drivers()
		if g := (Guest{Brand: b}); DriverOf(g) != all[0] {
			t.Errorf("%s has the driver %s", b, DriverOf(g))
		}
		for _, name := range append(slices.Clone(all), "jail", "firecracker", "bhyve", "oci", "none", "") {
			reason, allowed := b.CheckDriver(name)
			if slices.Contains(all, name) != (reason == "") || (reason == "") != (allowed == "") {
				t.Errorf("%s of %s: %q, %q", name, b, reason, allowed)
			}
		}
	}
	guests, err := Read("g.yaml", []byte("[{brand: lx, image: a}, {brand: joyent, image: a, driver: lxc}, {brand: kvm}]"))
	if err != nil || guests[0].Driver != Crun || guests[1].Driver != LXC || guests[2].Driver != QEMU {
		t.Fatalf("%+v, %v", guests, err)
	}
	_, err = Read("g.yaml", []byte("{brand: microvm, kernel: /k, driver: nspawn}"))
	if p := ProblemsOf(err); len(p) != 1 || p[0].Path != "driver" || p[0].Value != `"nspawn"` ||
		!strings.Contains(p[0].Reason, "machines") || p[0].Allowed != "use qemu or firecracker" {
		t.Errorf("%+v", p)
	}
	for _, text := range []string{"{driver: crun}", "{driver: ''}"} {
		_, _, err := Update(guests[1], "u", []byte(text))
		if p := ProblemsOf(err); len(p) != 1 || p[0].Path != "driver" || !strings.Contains(p[0].Reason, "fixed") {
			t.Errorf("%s: %+v", text, p)
		}
	}
	old := guests[0]
	old.Driver = "" // an earlier version has written it
	if changes := Diff(old, guests[0]); len(changes) > 0 {
		t.Errorf("the usual driver is a change: %v", changes)
	}
}
