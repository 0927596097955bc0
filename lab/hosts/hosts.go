// Package hosts connects to the hosts of a plan: this machine, and those that a
// lab file names. It finds the agent for each, leases the hosts, and records which
// were used, so that they can be cleaned without their lab file.
package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/lock"
	"bakeoff/base/sleep"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	executionall "bakeoff/measure/execution/all"
	"bakeoff/provision/driver"
	"bakeoff/provision/lease"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/ssh"
	systemall "bakeoff/reach/system/all"
)

// Controller is the machine that this program runs on.
type Controller struct {
	// Getenv reads the environment: BAKEOFF_STATE, BAKEOFF_CACHE, BAKEOFF_LOCK, BAKEOFF_AGENT
	// and BAKEOFF_SSH_CONFIG.
	Getenv func(string) string
}

// Dirs returns the directories for state and cache on this machine.
func (c Controller) Dirs() (state, cache string) { return lease.Dirs(c.Getenv, os.Getuid()) }

// HostLock is the file of the lock of this machine; see lock.OfMachine.
func (c Controller) HostLock() string { return lock.OfMachine(c.Getenv, os.Getuid()) }

// Conn is the way to this machine. It knows its agent where there is one.
func (c Controller) Conn() conn.Conn {
	agent, err := c.Agent()
	if err != nil {
		return local.Conn{}
	}
	return host{agent: agent}
}

// Machine is this machine as a host of a lab.
func (c Controller) Machine() env.Machine { return env.Here{Conn: c.Conn()} }

// host is this machine, for drivers whose Check executes the agent.
type host struct {
	local.Conn
	agent string
}

// Agent is the path of bakeoff-agent.
func (h host) Agent() string { return h.agent }

// Unwrap is the way to this machine itself, for what is done there without a
// process.
func (h host) Unwrap() conn.Conn { return h.Conn }

var _ env.Bootable = (*ssh.Conn)(nil)

// Dial connects to a host of a lab file.
func (c Controller) Dial(
	ctx context.Context,
	name string,
	h manifest.Host,
	progress func(string),
) (*ssh.Conn, error) {
	return c.Open(ctx, ssh.Options{Name: name, Target: h.SSH, Port: h.Port, Dir: h.Dir, Progress: progress})
}

// Open connects to a machine, with the agents and the configuration of ssh of this one.
func (c Controller) Open(ctx context.Context, o ssh.Options) (*ssh.Conn, error) {
	o.Agent, o.Config = c.agentFor, c.Getenv("BAKEOFF_SSH_CONFIG")
	return ssh.Open(ctx, o)
}

// Connected is the hosts of a plan, as far as they were reached.
type Connected struct {
	controller Controller
	hosts      map[string]*ssh.Conn
	// Unreached are the errors of the other hosts, by name.
	Unreached map[string]error
	// Boxes are the hosts that are switched between systems.
	Boxes map[string]*env.Box
}

// Reach connects to every host that contenders of p stand on. One that is
// switched between systems may be rebooting after a controller was killed:
// Reach waits for it for as long as patience lasts.
func (c Controller) Reach(
	ctx context.Context,
	p *plan.Plan,
	patience time.Duration,
	progress func(string),
) *Connected {
	f := &Connected{
		controller: c,
		hosts:      map[string]*ssh.Conn{},
		Unreached:  map[string]error{},
		Boxes:      map[string]*env.Box{},
	}
	for _, name := range slices.Sorted(maps.Keys(p.Hosts)) {
		if name == env.LocalHost {
			continue
		}
		to, err := c.Dial(ctx, name, p.Hosts[name], progress)
		if len(p.Hosts[name].Switch) > 0 {
			for end := time.Now().Add(patience); fault.Is(err, fault.Lab) && ctx.Err() == nil && time.Now().Before(end); {
				_ = sleep.For(ctx, 5*time.Second)
				to, err = c.Dial(ctx, name, p.Hosts[name], progress)
			}
		}
		if err != nil {
			f.Unreached[name] = err
			continue
		}
		f.hosts[name] = to
	}
	return f
}

// Conn is the way to a host by its name.
func (f *Connected) Conn(name string) (conn.Conn, error) {
	if name == env.LocalHost {
		return f.controller.Conn(), nil
	}
	if err := f.Unreached[name]; err != nil {
		return nil, err
	}
	if c := f.hosts[name]; c != nil {
		return c, nil
	}
	return nil, fault.New(fault.NotFound, "unknown host %q", name)
}

// Machine is a host by its name; "" is this machine.
func (f *Connected) Machine(name string) (env.Machine, error) {
	if name == "" || name == env.LocalHost {
		return f.controller.Machine(), nil
	}
	if c := f.hosts[name]; c != nil {
		return c, nil
	}
	return nil, fault.New(fault.NotFound, "host %q was not reached", name)
}

// size is how many CPUs a host's programs may use, and its memory.
func (f *Connected) size(name string) (cpus int, memory unit.Bytes, err error) {
	m, err := f.Machine(name)
	if err != nil {
		return 0, 0, err
	}
	all, err := m.CPUs()
	return len(all), m.Memory(), err
}

// state is the folder on a host below which environments are created.
func (f *Connected) state(name string) string {
	if c := f.hosts[name]; c != nil {
		return c.StateDir()
	}
	state, _ := f.controller.Dirs()
	return state
}

// Site is what preflight.Inspect reads before anything is created.
func (f *Connected) Site(drivers []driver.Driver) preflight.Site {
	_, cache := f.controller.Dirs()
	return preflight.Site{
		Drivers:   drivers,
		Workloads: executionall.Runners(),
		Way:       f.Conn,
		Size:      f.size,
		State:     f.state,
		Cache:     cache,
	}
}

// Close closes every connection.
func (f *Connected) Close() error {
	var errs []error
	for _, c := range f.hosts {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Leases are the lease managers of a run.
type Leases struct {
	Local  *env.Manager // nil where no contender stands on this machine
	Others map[string]*env.Manager
}

// Lease locks every machine that contenders of p stand on, for the run of that
// name. The leases must be closed, also when err is not nil.
func (f *Connected) Lease(ctx context.Context, run string, p *plan.Plan, agent string, drivers []driver.Driver,
	progress func(string)) (l Leases, err error) {
	if onController(p) {
		state, cache := f.controller.Dirs()
		warnUnlocked(env.LocalHost, f.controller.HostLock(), progress)
		if l.Local, err = env.Open(ctx, env.Config{
			StateDir: state, CacheDir: cache, HostLock: f.controller.HostLock(), Host: f.controller.Conn(), Agent: agent,
			Run: run, Progress: progress,
			Meter: p.Hosts[env.LocalHost].Meter, Uplink: p.Hosts[env.LocalHost].Uplink,
		}, drivers); err != nil {
			return l, err
		}
	}
	l.Others, err = f.managers(ctx, run, p, drivers, progress)
	return l, err
}

// Close returns everything that is leased.
func (l Leases) Close() error {
	down, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, other := range l.Others {
		errs = append(errs, other.Close(down))
	}
	if l.Local != nil { // last: an agent on this machine shares its lock
		errs = append(errs, l.Local.Close(down))
	}
	return errors.Join(errs...)
}

// onController reports whether a contender stands on this machine, or load
// comes from it.
func onController(p *plan.Plan) bool {
	return p.Generator == env.LocalHost || slices.ContainsFunc(p.Contenders, func(c plan.Contender) bool {
		return c.Host == "" || c.Host == env.LocalHost
	})
}

// managers open on every host that was reached and stays in its system. One
// that cannot be leased on is added to Unreached, for the contenders on it. If another
// controller measures on one, the error is of kind fault.Unsupported.
func (f *Connected) managers(ctx context.Context, run string, p *plan.Plan, drivers []driver.Driver,
	progress func(string)) (map[string]*env.Manager, error) {
	state, cache := f.controller.Dirs()
	ship := &env.Ship{Here: local.Conn{}, Cache: cache}
	out := map[string]*env.Manager{}
	for i, name := range slices.Sorted(maps.Keys(f.hosts)) {
		c, h := f.hosts[name], p.Hosts[name]
		if err := remember(state, name, h); err != nil {
			return out, err
		}
		warnUnlocked(name, c.HostLock(), progress)
		if len(h.Switch) > 0 {
			f.Boxes[name] = &env.Box{Name: name, At: c, Host: h, Systems: systemall.Systems(), Run: run, Ship: ship,
				Progress: progress}
			continue
		}
		m, err := env.Open(ctx, env.Config{
			StateDir: c.StateDir(), CacheDir: c.CacheDir(), HostLock: c.HostLock(), Host: c, Name: name, Agent: c.Agent(),
			Run: run, Progress: progress, Meter: h.Meter, Uplink: h.Uplink, Ship: ship,
			Place: byte(i + 1), // this machine's is 0
		}, drivers)
		if lock.Refused(err) {
			return out, fault.Op("host "+name, err)
		}
		if err != nil {
			f.Unreached[name] = fault.Op("host "+name, err)
			continue
		}
		out[name] = m
	}
	return out, nil
}

// warnUnlocked reports that a machine has no file for its lock.
func warnUnlocked(name, file string, progress func(string)) {
	if file == "" {
		progress("no lock on " + name + ": this user cannot write to the home folder there, so bakeoff cannot " +
			"prevent a second run; see BAKEOFF_LOCK")
	}
}

// hostDir is the folder in the state directory of this machine that records which
// hosts were leased, so that clean finds them without their lab file.
const hostDir = "host"

// remember records a host before anything is created on it.
func remember(state, name string, h manifest.Host) error {
	dir := filepath.Join(state, hostDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.Op("host "+name, err)
	}
	b, err := json.Marshal(manifest.Host{SSH: h.SSH, Port: h.Port, Dir: h.Dir})
	if err != nil {
		return fault.Op("host "+name, err)
	}
	// Lab files give the same name to several machines, and pools do so in each run.
	file := name + "@" + hexsum.Of(b)[:12] + ".json"
	return fault.Op("host "+name, local.Keep(filepath.Join(dir, file), append(b, '\n')))
}

// forget removes the record of a host without leftovers.
func forget(state, file string) error { return os.Remove(filepath.Join(state, hostDir, file+".json")) }

// maxNote bounds the record of one host, in bytes.
const maxNote = 64 << 10

// remembered returns the hosts that were leased, by the names of their records: the name of a
// host and a hash.
func remembered(state string) (map[string]manifest.Host, error) {
	out := map[string]manifest.Host{}
	files, err := filepath.Glob(filepath.Join(state, hostDir, "*.json"))
	if err != nil {
		return out, fault.Op("hosts", err)
	}
	for _, p := range files {
		f, err := os.Open(p)
		if err != nil {
			return out, fault.Wrap(fault.Invalid, "hosts", err)
		}
		var h manifest.Host
		err = json.NewDecoder(io.LimitReader(f, maxNote)).Decode(&h)
		f.Close()
		if err != nil {
			return out, fault.Wrap(fault.Invalid, p, err)
		}
		out[strings.TrimSuffix(filepath.Base(p), ".json")] = h
	}
	return out, nil
}
