package vm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
	"bakeoff/provision/isolation"
	"bakeoff/provision/lease"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/network"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// maxManifest bounds a manifest, in bytes.
const maxManifest = 1 << 20

// source is a manifest.
type source struct {
	guest  manifest.Guest
	dir    string // to which names in it belong
	sha256 string
}

// read reads the manifest of one guest, and refuses what a contender cannot be. spec is what
// the lab file asks for beside it. The error names every mistake.
func (d *Driver) read(name string, spec driver.Spec) (s source, err error) {
	file := name
	if !filepath.IsAbs(file) {
		if d.folder == "" {
			return s, fault.WithFix(fault.New(fault.Invalid, "manifest: the path %s is relative to a lab file whose "+
				"folder is no longer known", name), "write an absolute path, or start a new run")
		}
		if file, err = filepath.Abs(filepath.Join(d.folder, name)); err != nil {
			return s, err
		}
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() { // a device may have no end
		err = fault.New(fault.Invalid, "the path does not name a regular file")
	}
	if err == nil && info.Size() > maxManifest {
		err = fault.New(fault.Invalid, "the file has %d bytes; the limit is %d", info.Size(), maxManifest)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return s, fault.WithFix(fault.Wrap(fault.Invalid, "manifest "+file, err), "name the file of a manifest")
	}
	doc, err := manifest.ReadAll(file, text)
	if err != nil {
		return s, err
	}
	if len(doc.Guests) != 1 || len(doc.Networks) > 0 {
		return s, fault.WithFix(fault.New(fault.Invalid, "manifest %s describes %d guests and %d networks; a "+
			"contender needs exactly one guest and no network",
			file, len(doc.Guests), len(doc.Networks)), "write each guest into a "+
			"file of its own, without networks")
	}
	s = source{doc.Guests[0], filepath.Dir(file), fmt.Sprintf("%x", sha256.Sum256(text))}
	return s, s.check(doc, file, spec)
}

// check refuses properties that a contender cannot have.
func (s *source) check(doc manifest.Document, file string, spec driver.Spec) error {
	var out manifest.Problems
	refuse := func(path string, value any, reason, allowed string) {
		out = append(out, manifest.Problem{File: file, Path: path, Value: fmt.Sprint(value), Reason: reason,
			Allowed: allowed})
	}
	g := s.guest
	g.NICs, g.Ports = nil, nil
	none := func(string) *network.Network { return nil }
	err := vm.Fit(g, none, nil)
	out = append(out, doc.Locate(0, manifest.ProblemsOf(err))...)
	if g.Brand.Machine() {
		checkMachine(g, spec, refuse)
	}
	for i, n := range s.guest.NICs {
		refuse("nics."+strconv.Itoa(i), n.NicTag, "a contender is on the experiment's network", "remove nics")
	}
	for i, p := range s.guest.Ports {
		refuse("ports."+strconv.Itoa(i), p, "the guests of several contenders cannot have the same port of this machine",
			"remove ports: workloads reach the guest on the experiment's network")
	}
	if g.Driver == manifest.Firecracker || g.Driver == manifest.DriverBhyve {
		refuse("driver", g.Driver, "contenders of driver vm run in QEMU or as containers", "use driver qemu, or write a "+
			"contender with driver: "+g.Driver+" and without manifest")
	}
	if g.Bootrom == "uefi" {
		refuse("bootrom", g.Bootrom, "the machine of a contender starts the kernel of its image itself", "remove bootrom")
	}
	if g.Restart != "" && g.Restart != "no" {
		refuse("restart", g.Restart, "a guest that ends is a result", "remove restart")
	}
	if spec.Memory > 0 && int64(spec.Memory>>20) != int64(g.RAM) {
		refuse("ram", g.RAM, "the lab file asks for memory: "+spec.Memory.String(), "remove memory from the lab file, "+
			"or write the same size")
	}
	if spec.Quota > 0 && g.CPUCap > 0 && spec.Quota != float64(g.CPUCap)/100 {
		refuse("cpu_cap", g.CPUCap, fmt.Sprintf("the lab file asks for quota: %v", spec.Quota),
			"remove one of the two, or write the same limit")
	}
	if len(out) == 0 {
		return err
	}
	return fault.Wrap(fault.Invalid, "manifest "+file, out)
}

// prepared is what a manifest starts from.
type prepared struct {
	vm.Prepared
	sha256 string
}

// StartEngine builds or fetches what the guests of a manifest start from, once for all
// environments. There is no engine.
func (d *Driver) StartEngine(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Engine, error) {
	o, err := decode(spec.Options)
	if err != nil || o.manifest == "" {
		return nil, err
	}
	s, err := d.read(o.manifest, driver.Spec{})
	if err == nil {
		_, err = d.prepare(ctx, spec.Agent, s, o.manifest)
	}
	return nil, fault.Op("vm", err)
}

// prepare builds or fetches what a guest starts from, once.
func (d *Driver) prepare(ctx context.Context, agent string, s source, file string) (vm.Prepared, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.prepared[file]; ok && p.sha256 == s.sha256 {
		return p.Prepared, nil
	}
	_, cache := lease.Dirs(d.Getenv, os.Getuid())
	images := &image.Store{Dir: image.DirIn(cache), Host: local.Conn{}, Mirror: d.Getenv("BAKEOFF_MIRROR")}
	p, err := d.store(agent).PrepareManifest(ctx, images, s.guest, s.dir, build.Options{Agent: agent,
		Materials: d.Materials, Say: func(string) {}})
	if err == nil {
		err = p.Check()
	}
	if err == nil && p.Container == nil && !p.Agent {
		err = fault.WithFix(fault.New(fault.Unsupported, "the machine would have no agent of bakeoff, and nothing could be "+
			"measured in it"), "name a service folder or a container image instead of a kernel or a disk, or measure the "+
			"disk with driver: qemu")
	}
	if err != nil {
		return p, fault.Op("manifest "+file, err)
	}
	d.prepared[file] = prepared{p, s.sha256}
	return p, nil
}

// made is a guest that was created for an environment. Its supervisor is this process.
type made struct {
	guest *vm.Guest
	stop  context.CancelCauseFunc // of the supervisor
	ended chan struct{}
	mu    sync.Mutex
	gone  bool
}

// madeContainer is a container that was created for an environment.
type madeContainer struct {
	*isolation.Env
	made *made
}

// make creates a guest in a store of its own, in the folder of the environment, and starts it.
// It is not among the guests that `bakeoff vm list` shows: it ends with its environment.
func (d *Driver) make(ctx context.Context, host conn.Conn, spec driver.Spec, file string) (driver.Instance, error) {
	s, err := d.read(file, driver.Spec{})
	if err != nil {
		return nil, err
	}
	p, err := d.prepare(ctx, spec.Agent, s, file)
	if err != nil {
		return nil, err
	}
	c, q := &container{spec: spec, by: vm.TechnologyOf(s.guest)}, &placed{d: d, host: host, spec: spec}
	store := &vm.Store{State: spec.Dir, Host: local.Conn{}, Agent: spec.Agent, Containers: c, Machines: q}
	m := s.guest
	m.UUID, m.Autoboot = vm.NewUUID(), false
	m.Alias = cmp.Or(m.Alias, spec.Name)
	var in driver.Instance
	g := &made{ended: make(chan struct{})}
	if g.guest, err = store.Create(ctx, m, p.Boot, func(dir string) error {
		if p.Fill == nil {
			return nil
		}
		return p.Fill(ctx, dir)
	}); err != nil {
		return nil, err
	}
	err = g.start(ctx, store)
	switch {
	case err != nil && q.hosted != nil:
		return nil, errors.Join(withConsole(err, g.guest), g.end(context.WithoutCancel(ctx), q.hosted.Close))
	case err != nil:
		return nil, errors.Join(err, g.end(context.WithoutCancel(ctx), nil))
	case m.Brand.Machine():
		in = &madeMachine{q.hosted, g}
	default:
		in = &madeContainer{c.env, g}
	}
	for name, fact := range map[string]string{"guest.brand": string(m.Brand), "guest.driver": manifest.DriverOf(m),
		"guest.image": cmp.Or(m.Image, m.ImageUUID),
		"guest.ram":   strconv.Itoa(m.RAM) + "MiB", "manifest.sha256": s.sha256} {
		in.Info().Facts[name] = fact
	}
	return in, nil
}

// start starts the guest, and returns when it runs.
func (g *made) start(ctx context.Context, store *vm.Store) error {
	started := make(chan error, 1)
	var life context.Context // the guest outlives ctx; Close ends it
	life, g.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		defer close(g.ended)
		_ = store.Supervise(life, g.guest.UUID, func(err error) { started <- err }) // Close finds what it left
	}()
	keep := context.AfterFunc(ctx, func() { g.stop(vm.ErrAtOnce) })
	err := <-started
	if !keep() {
		err = ctx.Err()
	}
	return err
}

// end deletes the guest. remove, which may be nil, ends its environment.
func (g *made) end(ctx context.Context, remove func(context.Context) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return nil
	}
	var err error
	if remove != nil { // also what is frozen, which its supervisor cannot end
		err = remove(ctx)
	}
	g.stop(vm.ErrAtOnce)
	select {
	case <-g.ended:
	case <-ctx.Done():
		return errors.Join(err, fault.Op("end guest "+g.guest.UUID, ctx.Err()))
	}
	if err == nil {
		err = g.guest.Delete(ctx)
	}
	g.gone = err == nil
	return err
}

// Close deletes the guest.
func (in *madeContainer) Close(ctx context.Context) error { return in.made.end(ctx, nil) }

// Diagnose adds the console of the guest's program.
func (in *madeContainer) Diagnose(ctx context.Context) []byte {
	return withConsoleOf(in.Env.Diagnose(ctx), in.made.guest)
}

// container makes the container of a guest as an environment: with its label, its CPUs, its
// network and its volumes.
type container struct {
	spec driver.Spec
	by   vm.Technology
	env  *isolation.Env // nil until it is made
}

// Create makes the container. s is what the guest asks for.
func (c *container) Create(ctx context.Context, host conn.Conn, s driver.Spec) (driver.Instance, error) {
	asked := s
	s = c.spec
	s.Dir, s.Memory, s.Quota, s.Image = asked.Dir, asked.Memory, cmp.Or(asked.Quota, s.Quota), asked.Image
	s.Shares, s.Options = asked.Shares, asked.Options
	in, err := c.by.Create(ctx, host, s)
	if err != nil {
		return nil, err
	}
	env, ok := in.(*isolation.Env)
	if !ok {
		return nil, errors.Join(fault.New(fault.Lab, "the container has the unexpected type %T", in),
			in.Close(context.WithoutCancel(ctx)))
	}
	c.env = env
	return in, nil
}

// Reap removes what was made. What another environment has under this label is its own.
func (c *container) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	if c.env == nil {
		return nil, nil
	}
	left.Label = c.spec.Label
	return c.by.Reap(ctx, host, left, dryRun)
}
