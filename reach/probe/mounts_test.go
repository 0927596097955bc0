package probe

import (
	"slices"
	"strings"
	"testing"
)

const volumes = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 22 0:30 / /var/lib/x rw - tmpfs bakeoff rw
41 40 7:0 / /var/lib/x/volume/a rw - ext4 /dev/loop0 rw
42 22 0:31 / /var/lib/xy rw - tmpfs other rw
43 40 0:32 / /var/lib/x/with\040blank rw - tmpfs bakeoff rw
44 40 0:33 / /var/lib/x/nameless rw - tmpfs  rw
`

func TestMountedBelow(t *testing.T) {
	want := []string{"/var/lib/x/nameless", "/var/lib/x/with blank", "/var/lib/x/volume/a", "/var/lib/x"}
	if got := MountedBelow(volumes, "/var/lib/x"); !slices.Equal(got, want) {
		t.Errorf("below: %q, want %q", got, want)
	}
}

func FuzzMountedBelow(f *testing.F) {
	f.Add(volumes, "/var/lib/x")
	f.Add(`1 2 3 4 /a\04`, "/")
	f.Fuzz(func(t *testing.T, text, dir string) {
		for _, m := range MountedBelow(text, dir) {
			if !strings.HasPrefix(m, strings.TrimSuffix(dir, "/")) {
				t.Errorf("%q is not below %q", m, dir)
			}
		}
	})
}
