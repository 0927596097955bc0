package install

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/env"
	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/rescue"
	"bakeoff/prepare/install/spec"
	"bakeoff/provision/lease"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/ssh"
)

// imageFlags say which files are the disks of a machine that bakeoff starts.
type imageFlags struct {
	files   []string
	size    string
	machine *imageMachine // nil: the command has no --image
}

// imageMachine is the machine of a command with --image. It starts once, and the end of the
// command ends it.
type imageMachine struct {
	a      *commands
	access rescue.Access
	system rescue.System
	images []*rescue.Image
	guest  *rescue.Guest
	conn   conn.Conn
	used   bool // a step of the installation began
	undo   []func() error
}

// addImage adds --image to a command.
func (t *targetFlags) addImage(a *commands, c *cobra.Command, access rescue.Access) {
	c.Flags().StringArrayVar(&t.image.files, "image", nil, "disk image `file` (raw) to install into, in a machine that "+
		"bakeoff starts; repeat it for a mirror")
	if access != rescue.Change {
		c.Flags().StringVar(&t.image.size, "image-size", "", fmt.Sprintf("`size` of a new disk image; the default is %s",
			rescue.DefaultSize))
	}
	t.image.machine = &imageMachine{a: a, access: access}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := t.openImages(c); err != nil {
			return errors.Join(err, t.image.machine.close())
		}
		defer func() { err = errors.Join(err, t.image.machine.close()) }()
		return run(c, args)
	}
}

// openImages checks the flags, and opens and locks the images.
func (t *targetFlags) openImages(c *cobra.Command) error {
	var size unit.Bytes
	switch f := t.image; {
	case len(f.files) == 0 && f.size != "":
		return cli.Usage(c, fault.New(fault.Invalid, "--image-size needs --image"))
	case len(f.files) == 0:
		return nil
	case t.host != "" || t.port != 0 || t.facts != "":
		return cli.Usage(c, fault.New(fault.Invalid, "--image cannot be used with --host, --port or --facts"))
	case len(f.files) > 2:
		return cli.Usage(c, fault.New(fault.Invalid, "%d images are too many: a mirror has two disks", len(f.files)))
	case f.size != "":
		var err error
		if size, err = unit.ParseBytes(f.size); err != nil || size <= 0 {
			return cli.Usage(c, fault.New(fault.Invalid, "--image-size: write a size such as 16GiB (got %s)",
				safetext.Line(f.size)))
		}
	}
	m := t.image.machine
	for n, name := range t.image.files {
		if slices.ContainsFunc(t.image.files[:n], func(o string) bool { return filepath.Clean(o) == filepath.Clean(name) }) {
			return cli.Usage(c, fault.New(fault.Invalid, "--image names %s twice", safetext.Line(name)))
		}
		i, err := rescue.OpenImage(name, size, m.access)
		if err != nil {
			return err
		}
		m.images = append(m.images, i)
	}
	return nil
}

// imageDisks makes the images the disks of a specification.
func (f imageFlags) imageDisks(s *spec.Spec) error {
	if len(f.files) == 0 {
		return nil
	}
	wanted := 1
	if s.MirrorDisk != "" {
		wanted = 2
	}
	if len(f.files) != wanted {
		return fault.WithFix(fault.New(fault.Invalid, "the specification needs %s, but --image names %d of them",
			unit.Count(wanted, "disk"), len(f.files)), "repeat --image for each disk; mirror_disk makes a mirror")
	}
	s.Disk = f.machine.images[0].ByID()
	if wanted == 2 {
		s.MirrorDisk = f.machine.images[1].ByID()
	}
	return nil
}

// offer makes a specification use the archives of the rescue system.
func (f imageFlags) offer(s *spec.Spec) {
	if len(f.files) > 0 {
		f.machine.system.Offer(s)
	}
}

// haveDisks refuses a plan for other disks than the images.
func (f imageFlags) haveDisks(p *plan.Plan) error {
	if len(f.files) == 0 {
		return nil
	}
	name := func(serial string, size int64) string { return fmt.Sprintf("%s, %d bytes", serial, size) }
	have := lists.Map(f.machine.images, func(i *rescue.Image) string { return name(i.Serial, i.Size) })
	want := lists.Map(p.Drives(), func(d plan.Drive) string { return name(d.Serial, d.Size) })
	if !slices.Equal(have, want) {
		return fault.WithFix(fault.New(fault.Invalid, "the plan names the disks %s, but --image names %s",
			safetext.Line(fmt.Sprintf("%q", want)), fmt.Sprintf("%q", have)), "name the images of the plan, in its order and "+
			"at the paths that they had: the serial number depends on the path")
	}
	return nil
}

// keep says that a step of the installation began.
func (f imageFlags) keep() {
	if f.machine != nil {
		f.machine.used = true
	}
}

// connect starts the machine, if it does not run yet, and reaches the rescue system in it.
func (m *imageMachine) connect(ctx context.Context) (conn.Conn, error) {
	if m.conn != nil {
		return m.conn, nil
	}
	a := m.a
	say := func(line string) { fmt.Fprintln(a.Err, safetext.Line(line)) }
	agent, err := a.at.Agent()
	if err != nil {
		return nil, err
	}
	if err := rescue.Check(); err != nil {
		return nil, err
	}
	proxy := a.at.Getenv("http_proxy")
	store := a.at.Images(say)
	store.Mirror = a.at.Getenv("BAKEOFF_MIRROR")
	m.system, err = rescue.Builder{Store: store, Proxy: proxy, Say: say}.Get(ctx, rescue.Release)
	if err != nil {
		return nil, err
	}
	dir, err := m.lease(ctx)
	if err != nil {
		return nil, err
	}
	m.guest, err = m.system.Start(ctx, rescue.Options{Host: a.at.Conn(), Agent: agent, Dir: dir, Images: m.images,
		Write: m.access != rescue.Look, Proxy: proxy, Say: say})
	if err != nil {
		return nil, err
	}
	m.undo = append(m.undo, func() error { return m.guest.Kill(context.Background()) })
	at := a.at
	at.Getenv = func(name string) string {
		if name == "BAKEOFF_SSH_CONFIG" {
			return m.guest.Config
		}
		return a.at.Getenv(name)
	}
	err = m.guest.Await(ctx, func() error {
		to, err := at.Open(ctx, ssh.Options{Target: rescue.Host, Silence: installSilence})
		if err == nil {
			m.conn = to
			m.undo = append(m.undo, to.Close)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	say("rescue system: it answers")
	return m.conn, nil
}

// lease makes the folder of the machine, which bakeoff clean finds if this process is killed.
// The lock of this machine keeps measurements away from what an emulator does to them.
func (m *imageMachine) lease(ctx context.Context) (dir string, err error) {
	state, _ := m.a.at.Dirs()
	const owner = "install"
	unlock, err := env.LockFor(ctx, owner, state, m.a.at.HostLock())
	if err != nil {
		return "", err
	}
	m.undo = append(m.undo, unlock)
	leases := lease.Folder{At: m.a.at.Machine(), State: state, Local: true}
	var id [4]byte
	rand.Read(id[:]) // never fails
	l := lease.Lease{Lifetime: lease.Run, Label: "install-" + hex.EncodeToString(id[:]), Driver: "qemu",
		Name: "rescue system", Host: env.LocalHost, Owner: owner, PID: os.Getpid(), Started: time.Now().UTC()}
	l.Dir, l.Place = leases.Place(l.Label), leases.Holder(ctx)
	if err := errors.Join(os.MkdirAll(leases.Dir(), 0o755), os.MkdirAll(leases.EnvDir(), 0o755)); err != nil {
		return "", err
	}
	if err := leases.Write(ctx, l); err != nil {
		return "", err
	}
	m.undo = append(m.undo, func() error {
		if err := os.RemoveAll(l.Dir); err != nil {
			return err
		}
		return leases.Remove(context.Background(), l)
	})
	return l.Dir, os.Mkdir(l.Dir, 0o700)
}

// close ends the machine, and removes what it needed.
func (m *imageMachine) close() error {
	var err error
	for _, undo := range slices.Backward(m.undo) {
		err = errors.Join(err, undo())
	}
	for _, i := range m.images {
		err = errors.Join(err, i.Close(m.used))
	}
	m.undo, m.images, m.conn = nil, nil, nil
	return err
}
