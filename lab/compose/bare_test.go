package compose

import "testing"

// Every system has a baseline: the bare machine, as its driver is called there.
func TestBareDriver(t *testing.T) {
	for goos, want := range map[string]string{"linux": "host", "freebsd": "machine", "darwin": "machine"} {
		if got := bareDriver(goos); got != want {
			t.Errorf("%s: %s, want %s", goos, got, want)
		}
	}
}
