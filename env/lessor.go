package env

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/local"
	"bakeoff/driver"
	"bakeoff/fault"
	"bakeoff/image"
	"bakeoff/lock"
	"bakeoff/manifest"
	"bakeoff/netns"
)

// Lessor leases environments on one host, whose lock it holds: while a run
// measures, nothing else of bakeoff does anything there.
type Lessor struct {
	cfg    Config
	lock   *lock.Lock
	tag    string // in the labels of this lessor's leases
	layout Layout
	images *image.Store

	mu    sync.Mutex
	next  int
	addrs map[netip.Addr]bool
	net   *Record

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
	for _, d := range []string{cfg.StateDir, filepath.Join(cfg.StateDir, leaseDir), filepath.Join(cfg.StateDir, envDir)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fault.Op("env", err)
		}
	}
	path := filepath.Join(cfg.StateDir, lockFile)
	held, err := lock.Try(path)
	if errors.Is(err, lock.ErrHeld) {
		return nil, &fault.Error{Kind: fault.Unsupported, Op: "env",
			Err: fmt.Errorf("process %d measures on this host", lock.Holder(path)),
			Fix: "wait for it to end: two runs at once would measure each other"}
	}
	if err != nil {
		return nil, fault.Op("env", err)
	}
	l := &Lessor{cfg: cfg, lock: held, addrs: map[netip.Addr]bool{}}
	if err := l.open(ctx, drivers); err != nil {
		held.Release()
		return nil, err
	}
	return l, nil
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
	if l.layout, err = layoutOf(); err != nil {
		return fault.Op("env", err)
	}
	l.images = &image.Store{Dir: filepath.Join(l.cfg.CacheDir, "image"), Host: l.cfg.Host,
		Mirror: os.Getenv("BAKEOFF_MIRROR"), Progress: l.cfg.Progress}
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
			nerr = l.forget(*l.net)
		}
		err = errors.Join(err, nerr)
		l.net = nil
	}
	l.lock.Release()
	l.lock = nil
	return fault.Op("env: close", err)
}

// Layout returns which CPUs are whose.
func (l *Lessor) Layout() Layout { return l.layout }

// Host is the way to the host.
func (l *Lessor) Host() conn.Conn { return l.cfg.Host }

// Network makes the experiment's network, once.
func (l *Lessor) Network(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.net != nil {
		return nil
	}
	r := Record{Schema: LeaseSchema, Label: "net-" + l.tag, Name: "the experiment's network", Driver: "",
		Host: "local", Run: l.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC(), Network: "bo-" + l.tag}
	if err := l.remember(r); err != nil {
		return err
	}
	gateway := netip.PrefixFrom(Subnet.Addr().Next(), Subnet.Bits())
	if err := netns.Create(ctx, l.cfg.Host, r.Network, gateway); err != nil {
		return fault.Op("the experiment's network", err)
	}
	l.net = &r
	return nil
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
		c = peer{c, local.Conn{Netns: l.net.Network}}
	}
	return c, l.cfg.Agent, filepath.Join(l.cfg.StateDir, envDir)
}

// peer opens connections inside the experiment's network too: outside of it
// the same address may lead anywhere, to a proxy that answers for instance.
type peer struct {
	conn.Conn
	inside local.Conn
}

// Dial opens a connection from the experiment's network.
func (p peer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return p.inside.Dial(ctx, network, address)
}

// Image returns the image of a contender with these packages in it, built
// where the cache lacks it.
func (l *Lessor) Image(ctx context.Context, d driver.Doc, ref string, packages []string) (driver.Image, error) {
	if !d.Image || ref == "" {
		return driver.Image{}, nil
	}
	img, err := l.images.Get(ctx, image.Request{Ref: ref, Packages: packages, Disk: d.Kernel, Kernel: d.Kernel})
	if err != nil {
		return driver.Image{}, err
	}
	return driver.Image{Ref: ref, Digest: img.Digest, Root: img.Root, Disk: img.Disk, Kernel: img.Kernel, Modules: img.Modules}, nil
}

// Cached reports whether Image would return without building.
func (l *Lessor) Cached(d driver.Doc, ref string, packages []string) bool {
	return !d.Image || l.images.Cached(image.Request{Ref: ref, Packages: packages, Disk: d.Kernel, Kernel: d.Kernel})
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
		network = &driver.Network{Namespace: l.net.Network, Bridge: netns.Bridge, Addr: netip.PrefixFrom(addr, Subnet.Bits()),
			Gateway: Subnet.Addr().Next(), MAC: mac(addr)}
	}
	l.mu.Unlock()

	r := Record{Schema: LeaseSchema, Label: label, Driver: d.Doc().Name, Name: c.Name, Host: "local",
		Dir: filepath.Join(l.cfg.StateDir, envDir, label), Run: l.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC()}
	lease := &Lease{ID: label, CPUSet: subject, lessor: l, record: r, addr: addr}
	if err := l.remember(r); err != nil {
		return nil, err
	}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		return nil, errors.Join(fault.Op("env: lease "+c.Name, err), l.forget(r))
	}
	spec := driver.Spec{Label: label, Name: c.Name, Dir: r.Dir, CPUs: c.CPUs, CPUSet: lease.CPUSet, Memory: c.Memory, Image: img,
		Agent: l.cfg.Agent, Volumes: volumes(c.Volumes), Network: network, Options: options, Tuning: c.Tuning}
	lease.Asked = time.Now()
	inst, err := d.Create(ctx, l.cfg.Host, spec)
	lease.Up = time.Now()
	if err != nil {
		// The driver removed what it made; if it could not, the lease stays
		// for the next start to find.
		if rerr := os.RemoveAll(r.Dir); rerr != nil {
			return nil, errors.Join(err, rerr)
		}
		l.release(addr)
		return nil, errors.Join(err, l.forget(r))
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
			err = os.RemoveAll(le.record.Dir)
		}
		if err == nil {
			err = le.lessor.forget(le.record)
		}
		le.lessor.release(le.addr)
		le.err = fault.Op("env: return "+le.record.Name, err)
	})
	return le.err
}

// address draws the next free address. The mutex is held.
func (l *Lessor) address() netip.Addr {
	a := Subnet.Addr().Next()
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

func volumes(vs []manifest.Volume) []driver.Volume {
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
func (l *Lessor) remember(r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fault.Op("env: lease", err)
	}
	path := l.path(r)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Op("env: lease", err)
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = errors.Join(os.Rename(path+".new", path), syncDir(filepath.Dir(path)))
	}
	return fault.Op("env: lease", err)
}

func (l *Lessor) forget(r Record) error {
	return fault.Op("env: lease", os.Remove(l.path(r)))
}

func (l *Lessor) path(r Record) string {
	return filepath.Join(l.cfg.StateDir, leaseDir, r.Label+".json")
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
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
