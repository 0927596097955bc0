package env

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// Lessor leases environments on one host, whose lock it holds: while a run
// measures, nothing else of bakeoff does anything there.
type Lessor struct {
	cfg    Config
	at     Machine
	unlock func()
	tag    string // in the labels of this lessor's leases
	layout Layout
	images *image.Store
	memo   driver.Memo // of the host, for drivers

	mu    sync.Mutex
	next  int
	addrs map[netip.Addr]bool
	net   *Record

	silent   sync.Once // the meter has failed
	founding sync.Mutex
	grounds  map[string]ground
}

// Subnet is the experiment's network: addresses that RFC 2544 set aside for
// benchmarks and that no host uses otherwise.
var Subnet = netip.MustParsePrefix("198.18.0.0/24")

// Open locks the host, removes what dead controllers left behind, and lays
// out the CPUs. The host being measured on by somebody else is an error of
// kind fault.Unsupported that names the process.
func Open(ctx context.Context, cfg Config, drivers []driver.Driver) (*Lessor, error) {
	if cfg.Name == "" {
		cfg.Name = LocalHost
	}
	l := &Lessor{cfg: cfg, at: of(cfg.Host), addrs: map[netip.Addr]bool{}}
	for _, d := range []string{leaseDir, envDir} {
		if err := makeDirs(ctx, l.at, filepath.Join(cfg.StateDir, d)); err != nil {
			return nil, noState(cfg, err)
		}
	}
	unlock, err := l.at.Lock(ctx, filepath.Join(cfg.StateDir, lockFile))
	if err != nil {
		return nil, fault.Op("env", err)
	}
	l.unlock = unlock
	if err := l.open(ctx, drivers); err != nil {
		unlock()
		return nil, err
	}
	return l, nil
}

// noState is the error of a state folder that cannot be made.
func noState(cfg Config, err error) error {
	err = fault.Wrap(fault.Lab, "env: the folder for leases cannot be made", err)
	if cfg.Name != LocalHost {
		return err
	}
	return fault.WithFix(err, "BAKEOFF_STATE names another one")
}

func (l *Lessor) open(ctx context.Context, drivers []driver.Driver) error {
	c := Cleaner{StateDir: l.cfg.StateDir, Host: l.cfg.Host, Drivers: drivers}
	left, err := c.clean(ctx, false)
	if err != nil {
		return err
	}
	for _, f := range left {
		if len(f.Left) > 0 {
			l.say("removed what %s (%s) of an earlier run left behind", f.Lease.Name, f.Lease.Driver)
		}
	}
	tag := make([]byte, 3)
	if _, err := rand.Read(tag); err != nil {
		return fault.Op("env", err)
	}
	l.tag = hex.EncodeToString(tag)
	if l.layout, err = layoutOf(l.at); err != nil {
		return fault.Op("env", err)
	}
	l.images = &image.Store{Dir: filepath.Join(l.cfg.CacheDir, imageDir), Host: l.cfg.Host,
		Mirror: os.Getenv("BAKEOFF_MIRROR"), Progress: l.cfg.Progress}
	if l.cfg.Ship != nil { // images are built here and sent
		l.images.Dir, l.images.Host = filepath.Join(l.cfg.Ship.Cache, imageDir), l.cfg.Ship.Here
	}
	return nil
}

// Close removes the experiment's network and gives the host's lock back.
func (l *Lessor) Close(ctx context.Context) error {
	err := l.closeGrounds(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.net != nil {
		nerr := netns.Remove(ctx, l.cfg.Host, l.net.Network)
		if nerr == nil {
			nerr = l.forget(ctx, *l.net)
		}
		err = errors.Join(err, nerr)
		l.net = nil
	}
	l.unlock()
	return fault.Op("env: close", err)
}

// Layout returns which CPUs are whose.
func (l *Lessor) Layout() Layout { return l.layout }

// Memory is what the host has; 0 where its system does not tell.
func (l *Lessor) Memory() unit.Bytes { return l.at.Memory() }

// Host is the way to the host.
func (l *Lessor) Host() conn.Conn { return l.cfg.Host }

// Name is the host's in the lab file.
func (l *Lessor) Name() string { return l.cfg.Name }

// Session counts the times that the host was connected to: counters of two
// sessions are not of one process, and maybe not of one boot.
func (l *Lessor) Session() int { return l.at.Session() }

// Counters reads the host's counters, of these CPUs, and its meter. One that
// does not answer takes no trial away: the energy is then unavailable, which
// is said once.
func (l *Lessor) Counters(ctx context.Context, cpus []int) (probe.Counters, error) {
	c, err := l.at.Counters(ctx, cpus)
	if err != nil || len(l.cfg.Meter) == 0 {
		return c, err
	}
	var merr error
	c.Energy = nil
	if c.Joules, merr = readMeter(ctx, l.cfg.Host, l.cfg.Meter); merr != nil {
		l.silent.Do(func() { l.say("energy of %s is unavailable: %v", l.cfg.Name, merr) })
	}
	return c, ctx.Err()
}

// Settle moves the controller's own process on the host to cpus.
func (l *Lessor) Settle(ctx context.Context, cpus []int) error { return l.at.Settle(ctx, cpus) }

// Uplink returns an error unless the host's uplink can be taken, which Network
// does; nil where it has none. It changes nothing.
func (l *Lessor) Uplink(ctx context.Context) error {
	if l.cfg.Uplink == "" {
		return nil
	}
	return netns.Unused(ctx, l.cfg.Host, l.cfg.Uplink)
}

// Network makes the experiment's network, once.
func (l *Lessor) Network(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.net != nil {
		return nil
	}
	r := Record{Schema: LeaseSchema, Label: "net-" + l.tag, Name: "the experiment's network", Driver: "",
		Host: l.cfg.Name, Run: l.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC(), Network: "bo-" + l.tag}
	if err := l.remember(ctx, r); err != nil {
		return err
	}
	if err := netns.Create(ctx, l.cfg.Host, r.Network, netip.PrefixFrom(l.gateway(), l.bits())); err != nil {
		return fault.Op("the experiment's network", err)
	}
	l.net = &r
	if l.cfg.Uplink != "" {
		return fault.Op("the experiment's network", netns.Take(ctx, l.cfg.Host, r.Network, l.cfg.Uplink))
	}
	return nil
}

// gateway is the address of the bridge: the first of this host's.
func (l *Lessor) gateway() netip.Addr {
	a := Subnet.Addr().As4()
	a[2], a[3] = l.cfg.Place, 1
	return netip.AddrFrom4(a)
}

// bits is how much of an address is the network's: with an uplink all hosts
// are on one.
func (l *Lessor) bits() int {
	if l.cfg.Uplink != "" {
		return 16
	}
	return Subnet.Bits()
}

// Peer returns the other end: the experiment's network, on the CPUs that are
// not the subject's, with the agent's path and a directory there.
func (l *Lessor) Peer(subject []int) (c conn.Conn, agent, dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	argv := []string{l.cfg.Agent, "enter", "--cpus", list(l.layout.Others(subject))}
	if l.net != nil {
		argv = append(argv, "--netns", l.net.Network)
	}
	c = conn.Prefix(l.cfg.Host, append(argv, "--")...)
	if l.net != nil {
		c = l.inside(c, l.net.Network)
	}
	return c, l.cfg.Agent, filepath.Join(l.cfg.StateDir, envDir)
}

// Image returns the image of a contender with these packages in it, built
// where the cache lacks it. Of the options only driver.OptionKernelPackage is
// looked at.
func (l *Lessor) Image(ctx context.Context, d driver.Doc, ref string, packages []string, options param.Values) (driver.Image, error) {
	if !d.Image || ref == "" {
		return driver.Image{}, nil
	}
	if isFolder(d, ref) {
		return driver.Image{Ref: ref, Root: ref}, nil
	}
	if err := l.alike(); err != nil {
		return driver.Image{}, err
	}
	img, err := l.images.Get(ctx, request(d, ref, packages, options))
	if err != nil {
		return driver.Image{}, err
	}
	out := driver.Image{Ref: ref, Digest: img.Digest, Root: img.Root, Disk: img.Disk, Kernel: img.Kernel, Modules: img.Modules}
	if l.cfg.Ship != nil {
		return l.ship(ctx, out)
	}
	return out, nil
}

// request is the image that a contender with these options is made from.
func request(d driver.Doc, ref string, packages []string, options param.Values) image.Request {
	return image.Request{Ref: ref, Packages: packages, Disk: d.Kernel, Kernel: d.Kernel, KernelPackage: options[driver.OptionKernelPackage]}
}

// Root is where the unpacked root of an image lies in the cache of the machine
// that this program runs on; "" before it was built.
func Root(cache string, d driver.Doc, ref string, packages []string, options param.Values) string {
	store := image.Store{Dir: filepath.Join(cache, imageDir)}
	return store.Root(request(d, ref, packages, options))
}

// Place is the directory of an environment on its host, by its label.
func Place(state, label string) string { return filepath.Join(state, envDir, label) }

// CheckImage tells whether an image of that name could be built for a driver,
// without building it. Errors are of kind fault.Invalid.
func CheckImage(d driver.Doc, ref string, options param.Values) error {
	if !d.Image || ref == "" || isFolder(d, ref) {
		return nil
	}
	return request(d, ref, nil, options).Check()
}

// isFolder tells that ref is a folder on the host, which is there or is not.
func isFolder(d driver.Doc, ref string) bool { return d.Folder && strings.HasPrefix(ref, "/") }

// Cached reports whether Image would return without building.
func (l *Lessor) Cached(d driver.Doc, ref string, packages []string, options param.Values) bool {
	return !d.Image || ref == "" || isFolder(d, ref) || l.images.Cached(request(d, ref, packages, options))
}

// Counters reads the counters of the host that it is on, of its CPUs.
func (le *Lease) Counters(ctx context.Context) (probe.Counters, error) {
	return le.lessor.Counters(ctx, le.CPUSet)
}

// Stale returns an error of kind fault.Lab when the connection to the host was
// lost since the environment was made: whatever of it has processes is dead.
func (le *Lease) Stale() error {
	if le.lessor.at.Session() == le.session {
		return nil
	}
	return fault.New(fault.Lab, "the connection to %s was lost while the environment was up", le.lessor.cfg.Name)
}

// Lease is an environment with the right to use it until Return.
type Lease struct {
	driver.Instance
	ID     string // unique in the run: the instance
	CPUSet []int
	// Asked, Up are on the host's clock: when creation began and when the
	// environment answered.
	Asked, Up time.Time
	lessor    *Lessor
	session   int // of the host
	record    Record
	addr      netip.Addr
	once      sync.Once
	err       error
}

// Lease makes an environment of contender c by d. The lease is on disk before
// anything is made.
func (l *Lessor) Lease(ctx context.Context, d driver.Driver, c manifest.Contender, img driver.Image) (*Lease, error) {
	subject := l.layout.Subject(c.CPUs)
	options, err := l.found(ctx, d, c.Options, subject)
	if err != nil {
		return nil, err
	}
	label := l.label()
	l.mu.Lock()
	var network *driver.Network
	var addr netip.Addr
	if l.net != nil {
		addr = l.address()
		network = &driver.Network{Namespace: l.net.Network, Bridge: netns.Bridge, Addr: netip.PrefixFrom(addr, l.bits()),
			Gateway: l.gateway(), MAC: mac(addr)}
	}
	l.mu.Unlock()

	r := Record{Schema: LeaseSchema, Label: label, Driver: d.Doc().Name, Name: c.Name, Host: l.cfg.Name,
		Dir: Place(l.cfg.StateDir, label), Run: l.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC()}
	lease := &Lease{ID: label, CPUSet: subject, lessor: l, session: l.at.Session(), record: r, addr: addr}
	if err := l.remember(ctx, r); err != nil {
		return nil, err
	}
	if err := l.at.Mkdir(ctx, r.Dir); err != nil {
		return nil, errors.Join(fault.Op("env: lease "+c.Name, err), l.forget(ctx, r))
	}
	spec := driver.Spec{Label: label, Name: c.Name, Dir: r.Dir, CPUs: c.CPUs, CPUSet: lease.CPUSet, Memory: c.Memory, Quota: c.Quota, Read: c.IO.Read, Write: c.IO.Write, Image: img,
		Agent: l.cfg.Agent, Volumes: Volumes(c.Volumes), Network: network, Options: options, Tuning: c.Tuning, Memo: &l.memo}
	lease.Asked = time.Now()
	inst, err := d.Create(ctx, l.cfg.Host, spec)
	lease.Up = time.Now()
	if err != nil {
		// The driver removed what it made; if it could not, the lease stays
		// for the next start to find.
		if rerr := l.at.Remove(ctx, r.Dir); rerr != nil {
			return nil, errors.Join(err, rerr)
		}
		l.release(addr)
		return nil, errors.Join(err, l.forget(ctx, r))
	}
	lease.Instance = inst
	return lease, nil
}

// label names what is made next.
func (l *Lessor) label() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return fmt.Sprintf("%s-%d", l.tag, l.next)
}

// Return closes the environment and forgets the lease. It is idempotent.
// What could not be removed keeps its lease.
func (le *Lease) Return(ctx context.Context) error {
	le.once.Do(func() {
		err := le.Close(ctx)
		if err == nil {
			err = le.lessor.at.Remove(ctx, le.record.Dir)
		}
		if err == nil {
			err = le.lessor.forget(ctx, le.record)
		}
		le.lessor.release(le.addr)
		le.err = fault.Op("env: return "+le.record.Name, err)
	})
	return le.err
}

// address draws the next free address. The mutex is held.
func (l *Lessor) address() netip.Addr {
	a := l.gateway()
	for range 250 {
		if a = a.Next(); !l.addrs[a] {
			break
		}
	}
	l.addrs[a] = true
	return a
}

func (l *Lessor) release(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.addrs, a)
}

// mac is a locally administered address that follows from the IP address.
func mac(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("02:b0:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// Volumes are those of a lab file as drivers take them.
func Volumes(vs []manifest.Volume) []driver.Volume {
	var out []driver.Volume
	for _, v := range vs {
		out = append(out, driver.Volume{Path: v.Path, Backing: v.Backing, Size: v.Size, Device: v.Device, Properties: v.Properties})
	}
	return out
}

func (l *Lessor) say(format string, args ...any) {
	if l.cfg.Progress != nil {
		l.cfg.Progress(fmt.Sprintf(format, args...))
	}
}

// remember writes a lease, whole or not at all, and syncs it before anything
// is made.
func (l *Lessor) remember(ctx context.Context, r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fault.Op("env: lease", err)
	}
	return fault.Op("env: lease", l.at.Keep(ctx, l.path(r), append(b, '\n')))
}

func (l *Lessor) forget(ctx context.Context, r Record) error {
	return fault.Op("env: lease", l.at.Remove(ctx, l.path(r)))
}

func (l *Lessor) path(r Record) string {
	return filepath.Join(l.cfg.StateDir, leaseDir, r.Label+".json")
}

// list writes CPUs as the kernel does: 0,2,3.
func list(cpus []int) string {
	s := slices.Clone(cpus)
	slices.Sort(s)
	var out []byte
	for i, c := range s {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%d", c)
	}
	return string(out)
}
