package fake

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
)

// mark is part of every value that Inject uses, so that it can be found again.
const mark = "inJect"

// evil returns values that some program would read as more than a name.
func evil() []string {
	return []string{"-" + mark, "--" + mark + "=x", "-o/" + mark + "@y", "/a b" + mark, "/'" + mark + `"`,
		"/$(touch " + mark + ")", "/`" + mark + "`",
		"/a;" + mark, "/a\n" + mark, "/a," + mark + "=1", "/../" + mark, "tank/a b;" + mark + "@c", "tank/-R@-" + mark,
		"a/b@c@" + mark, mark + "\x00"}
}

// Inject creates environments of drv on hosts from host, with evil values in
// each text option, in volume paths, in the label, and in the names of a
// network. Each must be refused, or reach a program as one whole argument:
// never as a flag, never in the text of a shell, never as one part of a
// comma-separated argument.
func Inject(t *testing.T, drv driver.Driver, host func() *Host, spec driver.Spec) {
	t.Helper()
	spec.Label += "-evil"
	changes := map[string]func(s *driver.Spec, v string){
		"label": func(s *driver.Spec, v string) { s.Label = v },
		"volume": func(s *driver.Spec, v string) {
			all := drv.Doc().Backings
			backing := all[slices.IndexFunc(all, func(b string) bool { return b != volume.Dataset && b != volume.FFS })]
			s.Volumes = []volume.Volume{{Path: v, Backing: backing, Size: 1 << 20, Device: "/dev/null"}}
		},
		"pool": func(s *driver.Spec, v string) {
			s.Volumes = []volume.Volume{{Path: "/v", Backing: volume.Zvol, Size: 1 << 20, Pool: v}}
		},
		"device": func(s *driver.Spec, v string) {
			s.Volumes = []volume.Volume{{Path: "/v", Backing: "disk", Size: 1 << 20, Device: v}}
		},
	}
	for name, place := range map[string]func(n *netns.Network, v string){
		"bridge": func(n *netns.Network, v string) { n.Bridge = v }, "MAC": func(n *netns.Network, v string) { n.MAC = v },
		"namespace": func(n *netns.Network, v string) { n.Namespace = v },
	} {
		changes[name] = func(s *driver.Spec, v string) {
			n := netns.Network{Bridge: "bridge7", MAC: "02:b0:00:00:09:02", Namespace: "bo-evil"}
			place(&n, v)
			s.Network = &n
		}
	}
	for _, o := range drv.Doc().Options {
		if o.Kind == param.Text && o.Enum == nil {
			changes["option "+o.Name] = func(s *driver.Spec, v string) { s.Options[o.Name] = v }
		}
	}
	executed := 0
	for name, change := range changes {
		for _, v := range evil() {
			s := spec
			s.Dir, s.Options = t.TempDir(), maps.Clone(spec.Options)
			if s.Options == nil {
				s.Options = param.Values{}
			}
			change(&s, v)
			h := host()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			in, err := drv.Create(ctx, h, s)
			if err == nil {
				in.Close(ctx)
			}
			cancel()
			executed += len(h.Calls())
			for _, argv := range h.Calls() {
				if why := unsafe(argv, v); why != "" {
					t.Errorf("%s %q %s: %q", name, v, why, argv)
				}
			}
			if _, err := os.Lstat(filepath.Join(s.Dir, "..", mark)); err == nil {
				t.Errorf("%s %q: something was made outside the directory", name, v)
			}
		}
	}
	if executed == 0 {
		t.Error("no command was executed with any of them: the specification is refused for another reason")
	}
}

// unsafe returns why a program would read more in argv than one name; "" if it
// would not.
func unsafe(argv []string, v string) string {
	shell := slices.Contains([]string{"sh", "bash", "su", "zlogin", "ssh"}, filepath.Base(argv[0]))
	for i, a := range argv {
		if !strings.Contains(a, mark) {
			continue
		}
		switch {
		case shell && (i < 2 || strings.HasPrefix(argv[i-1], "-") && strings.HasSuffix(argv[i-1], "c")):
			return "reaches a shell as its program"
		case strings.HasPrefix(a, "-"):
			return "is a flag"
		case strings.Contains(v, ",") && strings.Contains(a, v) && a != v && a[0] != '/':
			return "divides an argument of several parts"
		}
	}
	return ""
}
