package wire

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestWhatAnInitLacks(t *testing.T) {
	addr := netip.MustParsePrefix("10.0.2.15/24")
	for name, tt := range map[string]struct {
		system string
		config InitConfig
		want   []string // words of each sentence
	}{
		"linux": {"linux", InitConfig{Root: "root", Modules: []string{"ext4"}, Port: "org.bakeoff",
			Volumes: []InitVolume{{Path: "/data", Type: "ext4"}}}, nil},
		"netbsd with what it has": {"netbsd", InitConfig{Port: "dial:10.0.2.100:7311",
			Volumes: []InitVolume{{Path: "/data", Type: "tmpfs", Size: 1 << 20}}, Network: &InitNetwork{Addr: addr},
			Hostname: "bakeoff", Sysctl: []InitSetting{{"kern.maxfiles", "4096"}}}, nil},
		"freebsd on a terminal": {"freebsd", InitConfig{Port: "/dev/ttyu1"}, nil},
		"freebsd at a port":     {"freebsd", InitConfig{Port: "tcp:0.0.0.0:7311"}, nil},
		"netbsd with disks": {"netbsd", InitConfig{Root: "root", Volumes: []InitVolume{{Path: "/data", Type: "ext4",
			Serial: "data"}}}, []string{"root: the kernel of a netbsd guest", "volume /data: a netbsd guest mounts tmpfs only"}},
		"freebsd with modules": {"freebsd", InitConfig{Modules: []string{"if_vtnet"}}, []string{"modules: a freebsd"}},
		"netbsd with ports":    {"netbsd", InitConfig{Port: "org.bakeoff"}, []string{`no port "org.bakeoff"`}},
		"netbsd with vsock":    {"netbsd", InitConfig{Port: "vsock:1024"}, []string{`no port "vsock:1024"`}},
		"a volume over the root": {"netbsd", InitConfig{Volumes: []InitVolume{{Path: "/", Type: "tmpfs"},
			{Path: "data", Type: "tmpfs"}}}, []string{`volume "/"`, `volume "data"`}},
		"IPv6": {"freebsd", InitConfig{Network: &InitNetwork{Addr: netip.MustParsePrefix("fe80::1/64")}},
			[]string{"fe80::1/64 is not an IPv4 address"}},
		"no address": {"freebsd", InitConfig{Network: &InitNetwork{}}, []string{"is not an IPv4 address"}},
		"openbsd":    {"openbsd", InitConfig{}, []string{"sets up no volumes, addresses or settings in a guest of openbsd"}},
	} {
		got := Lacks(tt.system, tt.config)
		if !slices.EqualFunc(got, tt.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
