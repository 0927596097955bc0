package env

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/lease"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Manager creates environments on one host and keeps their leases. It holds the
// host's lock: while a run measures, no other bakeoff uses the host.
type Manager struct {
	cfg    Config
	at     Machine
	unlock func() error
	leases lease.Folder
	tag    string // in the labels of this manager's leases
	place  lock.Place
	layout Layout
	images *image.Store
	memo   driver.Memo // of the host, for drivers

	mu     sync.Mutex
	next   int
	addrs  map[netip.Addr]bool
	ports  map[uint16]bool // of environments that are the machine
	net    *lease.Lease
	served []uint16 // see Serve

	silent   sync.Once // the meter has failed
	starting sync.Mutex
	engines  map[string]engine
}

// Subnet is the experiment's network, in the range that RFC 2544 reserves for
// benchmarks.
var Subnet = netip.MustParsePrefix("198.18.0.0/24")

// Open locks the host, removes the leftovers of dead controllers and divides
// the CPUs. If another controller measures on the host, the error is of kind
// fault.Unsupported and names the process.
func Open(ctx context.Context, cfg Config, drivers []driver.Driver) (*Manager, error) {
	cfg.Name = cmp.Or(cfg.Name, LocalHost)
	m := &Manager{cfg: cfg, at: of(cfg.Host), addrs: map[netip.Addr]bool{}, ports: map[uint16]bool{}}
	m.leases = leasesOf(m.at, cfg.StateDir)
	for _, d := range []string{m.leases.Dir(), m.leases.EnvDir()} {
		if err := makeDirs(ctx, m.at, d); err != nil {
			return nil, noState(cfg, err)
		}
	}
	unlock, err := lockHost(ctx, m.at, cfg.StateDir, cfg.HostLock, ownerFor(cfg.Run, cfg.Name))
	if err != nil {
		return nil, fault.Op("env", err)
	}
	m.unlock = unlock
	if err := m.open(ctx, drivers); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return m, nil
}

// noState is the error for a state folder that cannot be created.
func noState(cfg Config, err error) error {
	err = fault.Wrap(fault.Lab, "env: cannot create the folder for leases", err)
	if cfg.Name != LocalHost {
		return err
	}
	return fault.WithFix(err, "set BAKEOFF_STATE to another folder")
}

func (m *Manager) open(ctx context.Context, drivers []driver.Driver) error {
	c := Cleaner{StateDir: m.cfg.StateDir, Host: m.cfg.Host, Drivers: drivers}
	m.place = m.leases.Holder(ctx)
	left, err := c.clean(ctx, false, m.place, func(lease.Lease) bool { return false })
	if err != nil {
		return err
	}
	for _, f := range left {
		switch {
		case f.Kept: // only its owner removes it
		case f.Err != "":
			m.say("%s (%s): %s", f.Lease.Name, f.Lease.Driver, f.Err)
		case f.InUse:
			return fault.WithFix(fault.New(fault.Unsupported, "run %s measures on this host as process %d", f.Lease.Owner,
				f.Lease.PID), "wait for it to end: two runs at the same time disturb each other")
		case len(f.Left) > 0:
			m.say("removed the leftovers of %s (%s) from an earlier run", f.Lease.Name, f.Lease.Driver)
		}
	}
	tag := make([]byte, 3)
	if _, err := rand.Read(tag); err != nil {
		return fault.Op("env", err)
	}
	m.tag = hex.EncodeToString(tag)
	if m.layout, err = layoutOf(m.at); err != nil {
		return fault.Op("env", err)
	}
	m.images = &image.Store{Dir: image.DirIn(m.cfg.CacheDir), Host: m.cfg.Host,
		Mirror: os.Getenv("BAKEOFF_MIRROR"), Progress: m.cfg.Progress}
	if m.cfg.Ship != nil { // images are built here and sent
		m.images.Dir, m.images.Host = image.DirIn(m.cfg.Ship.Cache), m.cfg.Ship.Here
	}
	return nil
}

// Close removes the experiment's network and releases the lock of the host.
func (m *Manager) Close(ctx context.Context) error {
	err := m.stopEngines(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.net != nil {
		nerr := netns.Remove(ctx, m.cfg.Host, m.net.Network)
		if nerr == nil {
			nerr = m.leases.Remove(ctx, *m.net)
		}
		err = errors.Join(err, nerr)
		m.net = nil
	}
	return fault.Op("env: close", errors.Join(err, m.unlock()))
}

// Layout returns the division of the CPUs.
func (m *Manager) Layout() Layout { return m.layout }

// Memory is the memory of the host; 0 if its system does not report it.
func (m *Manager) Memory() unit.Bytes { return m.at.Memory() }

// Host is the connection to the host.
func (m *Manager) Host() conn.Conn { return m.cfg.Host }

// Name is the name of the host in the lab file.
func (m *Manager) Name() string { return m.cfg.Name }

// Session counts the connections to the host. Counters of two sessions come
// from different processes, and possibly from different boots.
func (m *Manager) Session() int { return m.at.Session() }

// Counters reads the host's counters for these CPUs, and its energy meter. A
// meter that does not answer does not void a trial: the energy is unavailable,
// which is reported once.
func (m *Manager) Counters(ctx context.Context, cpus []int) (facts.Counters, error) {
	c, err := m.at.Counters(ctx, cpus)
	if err != nil || len(m.cfg.Meter) == 0 {
		return c, err
	}
	var merr error
	c.Energy = nil
	if c.Joules, merr = readMeter(ctx, m.cfg.Host, m.cfg.Meter); merr != nil {
		m.silent.Do(func() { m.say("energy of %s is unavailable: %v", m.cfg.Name, merr) })
	}
	return c, ctx.Err()
}

// Settle moves the controller's own process on the host to cpus.
func (m *Manager) Settle(ctx context.Context, cpus []int) error { return m.at.Settle(ctx, cpus) }

// Uplink returns an error if Network could not use the host's uplink. It
// changes nothing.
func (m *Manager) Uplink(ctx context.Context) error {
	if m.cfg.Uplink == "" {
		return nil
	}
	return netns.Unused(ctx, m.cfg.Host, m.cfg.Uplink)
}

// Network creates the experiment's network, once.
func (m *Manager) Network(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.net != nil {
		return nil
	}
	r := lease.Lease{Lifetime: lease.Run, Label: "net-" + m.tag, Name: "the experiment's network", Driver: "",
		Host: m.cfg.Name, Owner: m.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC(), Network: "bo-" + m.tag}
	if err := m.remember(ctx, r); err != nil {
		return err
	}
	if err := netns.Create(ctx, m.cfg.Host, r.Network, netip.PrefixFrom(m.gateway(), m.bits())); err != nil {
		return fault.Op("the experiment's network", err)
	}
	m.net = &r
	if m.cfg.Uplink != "" {
		return fault.Op("the experiment's network", netns.Take(ctx, m.cfg.Host, r.Network, netns.Bridge, m.cfg.Uplink))
	}
	return nil
}

// gateway is the address of the bridge: the first of this host's addresses.
func (m *Manager) gateway() netip.Addr {
	a := Subnet.Addr().As4()
	a[2], a[3] = m.cfg.Place, 1
	return netip.AddrFrom4(a)
}

// bits is the prefix length of the network. With an uplink all hosts are on one
// network.
func (m *Manager) bits() int {
	if m.cfg.Uplink != "" {
		return 16
	}
	return Subnet.Bits()
}

// Peer returns the place of the load generator: the experiment's network, on
// the CPUs that the subject does not use, with the agent's path and a
// directory.
func (m *Manager) Peer(subject []int) (c conn.Conn, agent, dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	argv := []string{m.cfg.Agent, "enter", "--cpus", list(m.layout.Others(subject))}
	if m.net != nil {
		argv = append(argv, "--netns", m.net.Network)
	}
	c = conn.Prefix(m.cfg.Host, append(argv, "--")...)
	if m.net != nil {
		c = m.inside(c, m.net.Network)
	}
	return c, m.cfg.Agent, m.leases.EnvDir()
}

// Image returns the image of a contender with these packages, and builds it if
// it is not in the cache. The only option that it reads is
// driver.OptionKernelPackage.
func (m *Manager) Image(ctx context.Context, d driver.Doc, ref string, packages []string,
	options param.Values) (driver.Image, error) {
	return m.ImageWith(ctx, d, Origin{Ref: ref}, packages, options, nil)
}

// Origin says where an image comes from.
type Origin struct {
	Ref    string // its name
	Digest string // of its manifest, if a plan registered it; or ""
}

// OriginOf is the origin of the image of a contender.
func OriginOf(c manifest.Contender) Origin {
	ref, digest := c.Origin()
	return Origin{Ref: ref, Digest: digest}
}

// ImageWith is Image with files placed in it. They were packed: see image.Store.Pack.
// An image that could not be built is not tried again for another contender.
func (m *Manager) ImageWith(ctx context.Context, d driver.Doc, from Origin, packages []string, options param.Values,
	files []manifest.File) (driver.Image, error) {
	ref := from.Ref
	if !d.Image || ref == "" {
		return m.placed(ctx, d, files)
	}
	if isFolder(d, ref) {
		return driver.Image{Ref: ref, Root: ref}, nil
	}
	if err := m.alike(); err != nil {
		return driver.Image{}, err
	}
	req := request(d, from, packages, options)
	for _, f := range files {
		req.Files = append(req.Files, image.Placed{To: f.To, Digest: f.Digest})
	}
	img, err := m.images.Get(ctx, req)
	if err != nil {
		return driver.Image{}, err
	}
	out := driver.Image{Ref: ref, Digest: img.Digest, Root: img.Dir, Disk: img.Disk, Kernel: img.Kernel,
		Modules: img.Modules}
	if img.Config != nil {
		out.Start = startOf(*img.Config)
	}
	if m.cfg.Ship != nil {
		return m.ship(ctx, out)
	}
	if len(req.Files) == 0 {
		out.Saved = m.images.Saver(img)
	}
	return out, nil
}

// startOf is what the configuration of an image says about its programs. Like OCI
// runtimes, it starts the entrypoint with the command as its arguments.
func startOf(c layout.Config) *driver.Start {
	s := driver.Start{Env: c.Env, User: c.User, Dir: c.WorkingDir, Argv: slices.Concat(c.Entrypoint, c.Cmd)}
	if user, group, _ := strings.Cut(s.User, ":"); (user == "" || user == "root" || user == "0") &&
		(group == "" || group == "root" || group == "0") {
		s.User = ""
	}
	return &s
}

// request describes the image for a contender with these options.
func request(d driver.Doc, from Origin, packages []string, options param.Values) image.Request {
	return image.Request{Ref: from.Ref, Digest: from.Digest, Packages: packages, Disk: d.Kernel, Kernel: d.Kernel,
		KernelPackage: options[driver.OptionKernelPackage]}
}

// Root is the path of the unpacked root of an image in the cache of this
// machine; "" if it has not been built.
func Root(cache string, d driver.Doc, from Origin, packages []string, options param.Values) string {
	store := image.Store{Dir: image.DirIn(cache)}
	return store.Root(request(d, from, packages, options))
}

// Place is the directory of the environment with a label on its host.
func Place(state, label string) string { return lease.Folder{State: state}.Place(label) }

// CheckImage checks that an image with this name could be built for a driver.
// Errors are of kind fault.Invalid.
func CheckImage(d driver.Doc, ref string, options param.Values) error {
	if !d.Image || ref == "" || isFolder(d, ref) {
		return nil
	}
	if err := image.ForMachines(ref, d.Kernel); err != nil {
		return err
	}
	return request(d, Origin{Ref: ref}, nil, options).Check()
}

// isFolder tells whether ref is a folder on the host.
func isFolder(d driver.Doc, ref string) bool { return d.Folder && strings.HasPrefix(ref, "/") }

// Cached reports whether Image would return without building.
func (m *Manager) Cached(d driver.Doc, from Origin, packages []string, options param.Values) bool {
	return !d.Image || from.Ref == "" || isFolder(d, from.Ref) || m.images.Cached(request(d, from, packages, options))
}

// Counters reads the counters of the environment's host for its CPUs.
func (e *Environment) Counters(ctx context.Context) (facts.Counters, error) {
	return e.manager.Counters(ctx, e.CPUSet)
}

// Stale returns an error of kind fault.Lab if the connection to the host was
// lost since the environment was created: its processes are dead.
func (e *Environment) Stale() error {
	if e.manager.at.Session() == e.session {
		return nil
	}
	return fault.New(fault.Lab, "the connection to %s was lost while the environment was up", e.manager.cfg.Name)
}

// Environment is a live environment. Return closes it.
type Environment struct {
	driver.Instance
	ID     string // unique in the run: the instance
	CPUSet []int
	// Ports is added to the ports of servers in it: environments that are one machine, such
	// as the baseline and its twin, have one address.
	Ports uint16
	// Asked and Up are the times, on the host's clock, when creation began and
	// when the environment answered.
	Asked, Up time.Time
	manager   *Manager
	session   int // of the host
	lease     lease.Lease
	addr      netip.Addr
	whole     bool           // Ports is its own
	network   *netns.Network // nil without the experiment's network
	once      sync.Once
	err       error
}

// Lease creates an environment of contender c with driver d. The lease is on
// disk before anything is created.
func (m *Manager) Lease(ctx context.Context, d driver.Driver, c manifest.Contender,
	img driver.Image) (*Environment, error) {
	return m.LeaseWatched(ctx, d, c, img, false)
}

// LeaseWatched is Lease; with watch the driver observes how the environment comes up.
func (m *Manager) LeaseWatched(ctx context.Context, d driver.Driver, c manifest.Contender, img driver.Image,
	watch bool) (*Environment, error) {
	subject := m.layout.Subject(c.CPUs)
	options, err := m.optionsOf(ctx, d, c.Options, subject)
	if err != nil {
		return nil, err
	}
	label := m.label()
	m.mu.Lock()
	var network *netns.Network
	var addr netip.Addr
	if m.net != nil {
		addr = m.address()
		network = &netns.Network{Namespace: m.net.Network, Bridge: netns.Bridge, Addr: netip.PrefixFrom(addr, m.bits()),
			Gateway: m.gateway(), MAC: mac(addr), Outside: m.cfg.Uplink != ""}
	}
	m.mu.Unlock()

	r := lease.Lease{Lifetime: lease.Run, Label: label, Driver: d.Doc().Name, Name: c.Name, Host: m.cfg.Name,
		Dir: Place(m.cfg.StateDir, label), Owner: m.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC()}
	e := &Environment{ID: label, CPUSet: subject, manager: m, session: m.at.Session(), lease: r, addr: addr,
		network: network}
	if e.whole = d.Doc().Whole; e.whole {
		e.Ports = m.takePorts()
	}
	if err := m.remember(ctx, r); err != nil {
		e.release()
		return nil, err
	}
	if err := m.at.Mkdir(ctx, r.Dir); err != nil {
		e.release()
		return nil, errors.Join(fault.Op("env: lease "+c.Name, err), m.leases.Remove(ctx, r))
	}
	volumes := Volumes(c.Volumes)
	if network != nil {
		volume.Place(volumes, network.Namespace, network.Gateway, addr)
	}
	spec := driver.Spec{Label: label, Name: c.Name, Dir: r.Dir, CPUs: c.CPUs, CPUSet: e.CPUSet, Memory: c.Memory,
		Quota: c.Quota, Read: c.IO.Read, Write: c.IO.Write, Image: img,
		Agent: m.cfg.Agent, Volumes: volumes, Network: network, Options: options, Tuning: c.Tuning, Memo: &m.memo,
		Ports: m.served, Watch: watch}
	e.Asked = time.Now()
	inst, err := d.Create(ctx, m.cfg.Host, spec)
	e.Up = time.Now()
	if err != nil {
		// The driver removed what it created. If it could not, the lease stays,
		// and the next Open finds it.
		if rerr := m.at.Remove(ctx, r.Dir); rerr != nil {
			return nil, errors.Join(err, rerr)
		}
		e.release()
		return nil, errors.Join(err, m.leases.Remove(ctx, r))
	}
	e.Instance = inst
	return e, nil
}

// Serve says at which ports workloads start servers in the environments that Lease creates.
func (m *Manager) Serve(ports []uint16) { m.served = ports }

// AddIPv6 gives the environment an address of IPv6 on the experiment's network, and returns it.
func (e *Environment) AddIPv6(ctx context.Context) (netip.Addr, error) {
	if e.network == nil {
		return netip.Addr{}, fault.New(fault.Unsupported, "the environment is not on the experiment's network")
	}
	if i := e.Info(); i.Listen.IsValid() || i.Addr != e.addr {
		return netip.Addr{}, fault.WithFix(fault.New(fault.Unsupported,
			"the environment's own network has IPv4 only"), "remove family: ipv6, or set network: experiment")
	}
	return netns.AddIPv6(ctx, e.manager.cfg.Host, *e.network, e.ID)
}

// label returns the label of what is created next.
func (m *Manager) label() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	return fmt.Sprintf("%s-%d", m.tag, m.next)
}

// Return closes the environment and removes its lease. It is idempotent. If
// something could not be removed, the lease stays.
func (e *Environment) Return(ctx context.Context) error {
	e.once.Do(func() {
		err := e.Close(ctx)
		if err == nil {
			err = e.manager.at.Remove(ctx, e.lease.Dir)
		}
		if err == nil {
			err = e.manager.leases.Remove(ctx, e.lease)
		}
		e.release()
		e.err = fault.Op("env: return "+e.lease.Name, err)
	})
	return e.err
}

// address allocates the next free address. The caller holds the mutex.
func (m *Manager) address() netip.Addr {
	a := m.gateway()
	for range 250 {
		if a = a.Next(); !m.addrs[a] {
			break
		}
	}
	m.addrs[a] = true
	return a
}

// release gives the address and the ports of an environment back.
func (e *Environment) release() {
	m := e.manager
	if e.whole {
		m.returnPorts(e.Ports)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.addrs, e.addr)
}

// mac is a locally administered address derived from the IP address.
func mac(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("02:b0:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// Volumes converts the volumes of a lab file for drivers.
func Volumes(vs []manifest.Volume) []volume.Volume {
	var out []volume.Volume
	for _, v := range vs {
		out = append(out, volume.Volume{Path: v.Path, Backing: v.Backing, Size: v.Size, Device: v.Device,
			Pool: v.Pool, Properties: v.Properties})
	}
	return out
}

func (m *Manager) say(format string, args ...any) {
	if m.cfg.Progress != nil {
		m.cfg.Progress(fmt.Sprintf(format, args...))
	}
}

// remember writes a lease, with the place of the lock.
func (m *Manager) remember(ctx context.Context, r lease.Lease) error {
	r.Place = m.place
	return fault.Op("env", m.leases.Write(ctx, r))
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
