package vm

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/isolation"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// Containers makes and removes the guests that are containers.
type Containers interface {
	Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error)
	Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error)
}

// container is a guest that is a container. Its program is a child of the init process, as
// under Docker with --init.
type container struct {
	driver.Instance
	doors
	v    *supervisor
	kill context.CancelFunc // of the program
	out  *terminal
	keys *keyboard // nil without a terminal for the program
	done chan struct{}
	exit conn.Exit
	has  limited // the limits that are not always written
	err  error
}

// doors are the ports of this machine that lead to a guest.
type doors struct {
	listeners []net.Listener
	ports     []string
}

// dialer opens connections where a guest is reached.
type dialer interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// in opens connections in a network namespace. FreeBSD has none: this machine reaches its bridges.
func (s *Store) in(namespace string) dialer {
	if s.freebsd() {
		return local.Conn{}
	}
	return local.Conn{Netns: namespace}
}

// open forwards a port of this machine to an address behind a dialer.
func (d *doors) open(ctx context.Context, p Port, inside dialer, to netip.Addr) error {
	l, err := net.Listen("tcp", p.Host.String())
	if err != nil {
		return portInUse(p, err)
	}
	d.listeners = append(d.listeners, l)
	p.Host = l.Addr().(*net.TCPAddr).AddrPort()
	d.ports = append(d.ports, p.String())
	go forward(ctx, l, inside, netip.AddrPortFrom(to, p.Guest))
	return nil
}

// shut lets nobody in any more.
func (d *doors) shut() {
	for _, l := range d.listeners {
		l.Close()
	}
}

// reap removes what a killed supervisor left of the guest.
func (s *Store) reap(ctx context.Context, g *Guest) error {
	if g.Brand.Machine() {
		if err := s.awaitMachine(ctx, g); err != nil {
			return err
		}
		return errors.Join(volume.CloseServers(ctx, s.Host, s.dirOf(g.UUID)), g.removeLocks(), s.removeOwnNetwork(ctx, g),
			s.detachGuest(ctx, g), s.removeGroup(ctx, g.UUID))
	}
	if _, err := os.Stat(s.envDir(g.UUID)); errors.Is(err, os.ErrNotExist) {
		return nil // it was never started
	}
	err := s.detachGuest(ctx, g) // before the end of a jail, which would give its interfaces back
	_, rerr := s.containers(g.Guest).Reap(ctx, s.Host, driver.Leftover{Label: label(g.UUID), Dir: s.envDir(g.UUID)}, false)
	return fault.Op("remove leftovers of guest "+g.UUID, errors.Join(err, rerr))
}

// detachGuest removes what is left of the NICs of a guest that has ended.
func (s *Store) detachGuest(ctx context.Context, g *Guest) error {
	all, err := g.connections()
	if fault.Is(err, fault.NotFound) {
		return nil // the network went with them
	}
	return errors.Join(err, s.detach(ctx, all))
}

// transient are the parts of a container's folder that last as long as it runs: those of all
// drivers. The rest is what its programs have written.
var transient = []string{"work", "bundle", "state", "socket", "root", "lxc", "lxc.conf", "lxc.log"}

func (v *supervisor) startContainer(ctx context.Context) (_ instance, err error) {
	g, b := v.g, v.boot
	dir := g.store.envDir(g.UUID)
	written := ""
	limitable, err := g.makeEnv(ctx)
	if err != nil {
		return nil, err
	}
	if jailed(g.Guest) {
		err = jail.MakeRoot(ctx, g.store.Host, label(g.UUID), dir, g.rootOf(*b.Container))
	} else {
		written, err = v.clear(ctx, dir)
	}
	if err != nil {
		return nil, err
	}
	cpus, err := probe.CPUs()
	if err != nil {
		return nil, err
	}
	limits := limitsOf(g.Guest)
	spec := driver.Spec{Label: label(g.UUID), Name: g.Alias, Dir: dir, Written: written, CPUs: len(cpus), CPUSet: cpus,
		Memory: limits.Memory, Agent: g.store.Agent,
		Image: driver.Image{Ref: g.Image, Root: g.rootOf(*b.Container)}, KeepRoot: jailed(g.Guest),
		Quota: limits.Quota, Options: TechnologyOf(g.Guest).Options}
	spec.Shares = append(spec.Shares, driver.Share{From: g.Path(dirMetadata), To: MetadataIn, ReadOnly: true})
	for _, s := range g.shares() {
		spec.Shares = append(spec.Shares, driver.Share{From: s.From, To: s.To, ReadOnly: s.ReadOnly})
	}
	c := &container{v: v, done: make(chan struct{}), kill: func() {}}
	if c.Instance, err = g.store.containers(g.Guest).Create(ctx, g.store.Host, spec); err != nil {
		return nil, err
	}
	if err = c.limitMore(ctx); err == nil {
		err = v.connectContainer(ctx, c.Instance)
	}
	if err == nil && limitable {
		err = g.beginQuota(ctx, c.Instance)
	}
	if err == nil {
		err = c.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// clear prepares the folder of a container for its next start, and returns that of its written part.
func (v *supervisor) clear(ctx context.Context, dir string) (written string, _ error) {
	written, err := v.g.written(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range transient {
		err := errors.Join(os.RemoveAll(filepath.Join(dir, name)), os.RemoveAll(filepath.Join(written, name)))
		if err != nil {
			return "", err
		}
	}
	if len(v.g.NICs) == 0 {
		return written, nil
	}
	// For resolv.conf, which an image of one program has no folder for.
	_, err = os.Lstat(filepath.Join(v.boot.Container.Root, "etc"))
	if errors.Is(err, os.ErrNotExist) {
		return written, os.MkdirAll(filepath.Join(written, isolation.Upper, "etc"), 0o755)
	}
	return written, nil
}

// shares are the folders of the host that a container sees.
func (g *Guest) shares() (out []Share) {
	for _, f := range g.Filesystems {
		out = append(out, Share{From: f.Source, To: f.Target, ReadOnly: slices.Contains(f.Options, "ro")})
	}
	return out
}

// begin publishes the ports and starts the program.
func (c *container) begin(ctx context.Context) (err error) {
	var inside dialer = local.Conn{Netns: netns.Own(label(c.v.g.UUID))}
	if jailed(c.v.g.Guest) {
		inside = c.Instance
	}
	for _, p := range c.v.boot.Ports {
		if err := c.open(ctx, p, inside, loopback); err != nil {
			return err
		}
	}
	if c.out, err = openTerminal(c.v.g.ConsoleLog(), c.v.g.Path("s")); err != nil {
		return err
	}
	start := c.v.boot.Container.Start
	if len(start.Argv) == 0 {
		return nil // programs are started by exec
	}
	argv, env, in := start.Argv, start.Env, io.Reader(c.out.in)
	if start.User != "" {
		argv = append([]string{c.Info().Agent, "exec", "--user", start.User, "--"}, argv...)
	}
	if c.v.g.TTY {
		c.keys = newKeyboard(c.out.in)
		argv, env = append([]string{c.Info().Agent, "terminal", "--"}, argv...), append([]string{"TERM=xterm"}, env...)
		in = c.keys
	}
	live, kill := context.WithCancel(context.WithoutCancel(ctx))
	c.kill = kill
	go func() {
		defer close(c.done)
		if c.v.extra.Console {
			c.out.awaitClient(live)
		}
		c.exit, c.err = c.Exec(live, conn.Cmd{Argv: argv, Env: env, Dir: start.Dir, Stdin: in, Stdout: c.out,
			Stderr: c.out})
	}()
	return nil
}

func (c *container) describe(t *Transition) { t.Ports = c.ports }

func (c *container) ended() <-chan struct{} { return c.done }

func (c *container) result(context.Context) (Transition, error) {
	if c.err != nil {
		return Transition{}, c.err
	}
	return Transition{State: Stopped, Why: "its program ended: " + c.exit.String(), Exit: &c.exit.Code}, nil
}

// stop sends SIGTERM to the program and waits for its end.
func (c *container) stop(ctx context.Context) error {
	if len(c.v.boot.Container.Start.Argv) == 0 {
		return nil
	}
	if err := c.signal(ctx, int(syscall.SIGTERM)); err != nil {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal sends a signal to the programs that the container's init process has started.
func (c *container) signal(ctx context.Context, number int) error {
	if g := c.v.g; jailed(g.Guest) {
		return jail.Signal(ctx, g.store.Host, label(g.UUID), number)
	}
	group, err := c.group()
	if err != nil {
		return err
	}
	pids, err := group.PIDs(ctx)
	if err != nil {
		return err
	}
	parents, first := map[int]int{}, isolation.InitOf(pids)
	for _, pid := range pids {
		parents[pid] = parentOf(pid)
	}
	depth := 1 // below the init process
	if c.v.boot.Container.Start.User != "" {
		depth++ // below the agent, which has become the user
	}
	if c.v.g.TTY {
		depth++ // below the agent, which has the terminal
	}
	sent := false
	for pid := range parents {
		if first > 0 && depthBelow(parents, pid, first) == depth && signalProcess(pid, number) == nil {
			sent = true
		}
	}
	if !sent {
		return fault.New(fault.Lab, "no program runs in the container")
	}
	return nil
}

func (c *container) group() (*cgroup.Group, error) {
	e, ok := c.Instance.(*isolation.Env)
	if !ok || e.Group == nil {
		return nil, fault.New(fault.Lab, "the container has no control group")
	}
	return e.Group, nil
}

// depthBelow is how many generations a process is below another one; 0 if it does not descend
// from it.
func depthBelow(parents map[int]int, pid, first int) int {
	for depth := 1; depth < len(parents); depth++ {
		parent, ok := parents[pid]
		if !ok {
			return 0
		}
		if parent == first {
			return depth
		}
		pid = parent
	}
	return 0
}

// close ends the container and what is in it.
func (c *container) close(ctx context.Context) error {
	c.shut()
	c.kill()
	if c.keys != nil {
		c.keys.Close()
	}
	err := c.v.g.store.detach(ctx, c.v.joined) // before the end of a jail, which would give its interfaces back
	err = errors.Join(err, c.Instance.Close(ctx))
	if c.out != nil {
		err = errors.Join(err, c.out.close())
	}
	return err
}

// dialTime bounds a connection to a port of a guest.
const dialTime = 10 * time.Second

// forward connects the clients of a port of the host to an address behind a dialer.
func forward(ctx context.Context, l net.Listener, inside dialer, at netip.AddrPort) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			dialing, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
			to, err := inside.Dial(dialing, "tcp", at.String())
			cancel()
			if err != nil {
				return
			}
			defer to.Close()
			var wg sync.WaitGroup
			pipe := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				if half, ok := to.(interface{ CloseWrite() error }); ok {
					_ = half.CloseWrite()
				}
			}
			wg.Go(func() { pipe(to, c) })
			wg.Go(func() { pipe(c, to) })
			wg.Wait()
		}()
	}
}

// terminal writes what a program prints to a log and to the clients of a socket, whose input
// the program reads.
type terminal struct {
	in      *io.PipeReader
	keys    *io.PipeWriter
	log     *os.File
	l       net.Listener
	arrived chan struct{} // closed when the first client has connected
	mu      sync.Mutex
	clients map[net.Conn]bool
}

func openTerminal(log, socket string) (*terminal, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l, err := listenAt(socket)
	if err != nil {
		f.Close()
		return nil, err
	}
	t := &terminal{log: f, l: l, clients: map[net.Conn]bool{}, arrived: make(chan struct{})}
	t.in, t.keys = io.Pipe()
	go t.accept()
	return t, nil
}

func (t *terminal) accept() {
	for first := true; ; first = false {
		c, err := t.l.Accept()
		if err != nil {
			return
		}
		t.mu.Lock()
		t.clients[c] = true
		t.mu.Unlock()
		if first {
			close(t.arrived)
		}
		go func() {
			_, _ = io.Copy(t.keys, c) // until the client leaves, or the program has ended
			t.drop(c)
		}()
	}
}

func (t *terminal) drop(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.clients, c)
	c.Close()
}

// writeTime bounds the time that a client of the console may take to read.
const writeTime = time.Second

// Write implements io.Writer.
func (t *terminal) Write(b []byte) (int, error) {
	n, err := t.log.Write(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.clients {
		_ = c.SetWriteDeadline(time.Now().Add(writeTime))
		if _, werr := c.Write(b); werr != nil {
			delete(t.clients, c)
			c.Close()
		}
	}
	return n, err
}

func (t *terminal) close() error {
	t.keys.Close()
	t.in.Close()
	t.l.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.clients {
		c.Close()
	}
	return t.log.Close()
}

// parentOf is the parent of a process of this machine; 0 if it has ended.
func parentOf(pid int) int {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// PID (NAME) STATE PARENT …; the name may have any character.
	_, rest, _ := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), ") ")
	f := strings.Fields(rest)
	if len(f) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(f[1])
	return parent
}

func findProgram(name string) (string, error) { return exec.LookPath(name) }
