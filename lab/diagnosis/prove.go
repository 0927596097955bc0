package diagnosis

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/proof"
	"bakeoff/reach/system"
)

// ProveOptions says what Prove proves, and how.
type ProveOptions struct {
	Driver  driver.Driver
	Options param.Values
	// Image is a reference or a folder with a root; "" is the driver's own.
	Image   string
	Version string // of bakeoff
	// Self is the command line that starts this program as it was started: the
	// suite kills one controller in the middle of its work.
	Self []string
	// Ended hears of each test; Progress of what is prepared.
	Ended    func(suite.Outcome)
	Progress func(string)
}

// Prove runs the contract suite of a driver on this machine, and stores the
// proof. The suite also starts this program once to kill it: in that process Prove
// creates an environment, waits, and returns victim true.
func Prove(ctx context.Context, at hosts.Controller, o ProveOptions) (p proof.Proof, victim bool, err error) {
	doc := o.Driver.Doc()
	if c := CheckDriver(ctx, o.Driver, at.Conn(), runtime.GOOS, system.Installer{}); !c.OK &&
		!slices.Contains(doc.Hosts, runtime.GOOS) {
		return p, false, fault.New(fault.Unsupported, "driver %s cannot be proven on this machine: it %s", doc.Name, c.Reason)
	}
	agent, err := at.Agent()
	if err != nil {
		return p, false, err
	}
	test := drivertest.Options{Victim: func() *exec.Cmd { return exec.Command(o.Self[0], o.Self[1:]...) }}
	if doc.Kernel {
		test.Memory, test.Timeout = 256*unit.MiB, 2*time.Minute
	}
	if drivertest.Victim() {
		test.Host, test.Options, test.Agent = at.Conn(), o.Options, agent
		suite.Run(ctx, doc.Name, func(t suite.T) { drivertest.On(t, o.Driver, test) }, nil)
		return p, true, nil
	}
	state, cache := at.Dirs()
	c := proof.Config{Driver: o.Driver, Host: at.Conn(), Options: o.Options, Agent: agent, Version: o.Version, Suite: test,
		StateDir: state, Now: time.Now, Ended: o.Ended}
	// The suite has the machine to itself.
	manager, err := env.Open(ctx, env.Config{StateDir: state, CacheDir: cache, Host: c.Host, Agent: agent,
		Run:      "doctor --prove",
		Progress: o.Progress}, driverall.Drivers())
	if err != nil {
		return p, false, err
	}
	defer func() {
		down, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errors.Join(err, manager.Close(down))
	}()
	switch info, serr := os.Stat(o.Image); {
	case o.Image == "":
	case serr == nil && info.IsDir():
		if c.Image.Root, err = filepath.Abs(o.Image); err != nil {
			return p, false, fault.Wrap(fault.Invalid, "image", err)
		}
		c.Image.Ref = o.Image
	default:
		if c.Image, err = manager.Image(ctx, doc, o.Image, nil, o.Options); err != nil {
			return p, false, err
		}
	}
	p, err = proof.Run(ctx, c)
	return p, false, err
}
