package main

import (
	"reflect"
	"testing"

	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// A machine of bhyve has the kinds of information that bakeoff itself knows, in the words of QEMU.
func TestInfoOfBhyve(t *testing.T) {
	g := &vm.Guest{Guest: manifest.Guest{Brand: manifest.Bhyve, Driver: manifest.DriverBhyve}}
	if got := infoKindsOf(g); !reflect.DeepEqual(got, []string{"filesystems", "vnc"}) {
		t.Errorf("its kinds are %q", got)
	}
	for at, want := range map[string]any{"": map[string]bool{"enabled": false},
		"127.0.0.1:5901": map[string]any{"enabled": true, "host": "127.0.0.1", "service": "5901"}} {
		g.VNC = at
		if got, err := infoOf(t.Context(), g, "vnc"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("at %q: %v, %v", at, got, err)
		}
	}
}
