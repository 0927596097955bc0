// Package drivertest is the suite that every driver passes with its real
// technology: under go test, and in `bakeoff doctor --prove` on a user's
// machine.
package drivertest

import (
	"cmp"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Options adapt the suite to a technology.
type Options struct {
	// Image is the image of environments. For a driver that needs an image and
	// gets none, the suite builds a root with a static busybox.
	Image driver.Image
	// Options are the options of the driver.
	Options param.Values
	// Memory is the memory of each environment; 0 is 96 MiB. Timeout bounds one
	// creation; 0 is a minute.
	Memory  unit.Bytes
	Timeout time.Duration
	// Transfer is the size of the files that are pushed and pulled; 0 is 4 MiB.
	Transfer int
	// Name makes labels unique if one package runs the suite twice.
	Name string
	// Host is the host to use; nil is this machine. Dir is a directory on it
	// and on this machine, for the suite's files; "" is a temporary one.
	Host conn.Conn
	Dir  string
	// Agent is the path of bakeoff-agent on the host and on this machine; ""
	// builds it.
	Agent string
	// Left finds leftovers of an environment independently of the driver's
	// Reap, one line for each; nil looks for mounts, control groups and network
	// namespaces.
	Left func(spec driver.Spec) []string
	// Backings are the supported backings of volumes with Options; nil are those of Doc.
	Backings []string
	// NoVolume creates the environments that are canceled or crash without
	// volumes, because the guest of a fake cannot mount them.
	NoVolume bool
	// Engine tells that environments are on a network of their engine: they may be reached
	// at another address than their own, and the one that crashes has a network, too.
	Engine bool
	// Reachable tells that this engine's network is the host's own, which reaches them.
	Reachable bool
	// Without names tests that do not apply, with the reason.
	Without map[string]string
	// Victim is a process that calls Run or On with the same driver and options
	// and is then killed; nil is this test program, as go test starts it.
	Victim func() *exec.Cmd
}

// crashed is set in the process that will be killed.
const crashed = "DRIVERTEST_CRASH"

// Victim tells whether this process is the one that will be killed.
func Victim() bool { return os.Getenv(crashed) != "" }

// runner is one driver under test.
type runner struct {
	suite.T
	drv   driver.Driver
	o     Options
	host  conn.Conn
	dir   string // of the test, on the host
	agent string
}

// Run tests drv under go test. It skips if the driver's Check fails, with its
// reason, and with -short.
func Run[U suite.GoTest[U]](t U, drv driver.Driver, o Options) {
	t.Helper()
	if o.Victim == nil {
		test, _, _ := strings.Cut(t.Name(), "/")
		o.Victim = func() *exec.Cmd { return exec.Command(os.Args[0], "-test.run=^"+test+"$") }
	}
	On(suite.Under(t), drv, o)
}

// On tests drv with any T; see Run.
func On(t suite.T, drv driver.Driver, o Options) {
	o.Memory = cmp.Or(o.Memory, 96*unit.MiB)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	if o.Host == nil {
		o.Host = local.Conn{}
	}
	if o.Backings == nil {
		o.Backings = drv.Doc().Backings
	}
	s := &runner{T: t, drv: drv, o: o, host: o.Host}
	if dir := os.Getenv(crashed); dir != "" {
		s.crash(dir)
		return
	}
	t.Run("doc", func(t suite.T) { checkDoc(t, drv.Doc()) })
	if t.Short() {
		t.Skip("makes real environments: not with -short")
	}
	a := drv.Check(t.Context(), s.host, o.Options)
	if !a.OK {
		t.Skipf("needs: %s; %s", a.Reason, a.Fix)
	}
	t.Logf("usable: %v", a.Facts)
	s.prepare()
	s.startEngine()
	for _, test := range []struct {
		name string
		run  func(*runner)
	}{
		{"life", (*runner).life}, {"contract", (*runner).contract}, {"side by side", (*runner).sideBySide},
		{"limits", (*runner).limits}, {"volumes", (*runner).volumes}, {"network", (*runner).network},
		{"rest", (*runner).rest}, {"cancelled", (*runner).cancelled}, {"crashed", (*runner).crashedController},
		{"crashed creating", (*runner).crashedCreating},
		{"tuning", (*runner).tuning},
	} {
		t.Run(test.name, func(t suite.T) {
			if why, ok := o.Without[test.name]; ok {
				t.Skip(why)
			}
			sub := *s
			sub.T = t
			test.run(&sub)
		})
	}
}

func checkDoc(t suite.T, d driver.Doc) {
	for what, empty := range map[string]bool{"Name": d.Name == "", "Summary": d.Summary == "", "Status": d.Status == "",
		"Hosts": len(d.Hosts) == 0, "Backings": len(d.Backings) == 0 && !d.Whole,
		"Enforces": len(d.Enforces) == 0 && !d.Whole, "Source": len(d.Source) == 0} {
		if empty {
			t.Errorf("Doc has no %s", what)
		}
	}
	if strings.HasSuffix(d.Summary, ".") || strings.Contains(d.Summary, "\n") {
		t.Errorf("the summary is not one sentence without its full stop: %q", d.Summary)
	}
	if !slices.IsSorted(d.Backings) {
		t.Errorf("backings are not sorted: %v", d.Backings)
	}
	if len(d.Tuning.Names) == 0 && d.Tuning.Why == "" {
		t.Error("Doc takes no tuning, and does not say why")
	}
	for _, o := range d.Options {
		if o.Doc == "" {
			t.Errorf("option %s has no documentation", o.Name)
		}
		if o.Default != "" {
			if c, err := o.Canonical(o.Default); err != nil || c != o.Default {
				t.Errorf("option %s: its default %q is not canonical: %q, %v", o.Name, o.Default, c, err)
			}
		}
	}
}
