package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/trial"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/ssh"
	systemall "bakeoff/reach/system/all"
)

// localHost is the machine that this program runs on.
func (a *app) localHost() conn.Conn {
	agent, err := agentPath(a.env)
	if err != nil {
		return local.Conn{}
	}
	return host{agent: agent}
}

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

// rebootPatience is how long a machine that may be booting is waited for at
// the start of a run.
const rebootPatience = 5 * time.Minute

// dial connects to a host of a lab file.
func (a *app) dial(ctx context.Context, name string, h manifest.Host, progress func(string)) (*ssh.Conn, error) {
	return ssh.Open(ctx, ssh.Options{Name: name, Target: h.SSH, Port: h.Port, Dir: h.Dir, Agent: a.agentFor,
		Config: a.env("BAKEOFF_SSH_CONFIG"), Progress: progress})
}

// fleet is the hosts of a plan, as far as they are reached.
type fleet struct {
	*app
	hosts map[string]*ssh.Conn
	errs  map[string]error    // of those that are not
	boxes map[string]*env.Box // those of hosts that are switched between systems
}

// reach connects to every host that contenders of p stand on. One that is
// switched between systems may be rebooting after a controller that was
// killed: it is waited for as long as patience lasts.
func (a *app) reach(ctx context.Context, p *plan.Plan, patience time.Duration, progress func(string)) *fleet {
	f := &fleet{app: a, hosts: map[string]*ssh.Conn{}, errs: map[string]error{}, boxes: map[string]*env.Box{}}
	for _, name := range sortedKeys(p.Hosts) {
		if name == env.LocalHost {
			continue
		}
		c, err := a.dial(ctx, name, p.Hosts[name], progress)
		if len(p.Hosts[name].Switch) > 0 {
			for end := time.Now().Add(patience); fault.Is(err, fault.Lab) && ctx.Err() == nil && time.Now().Before(end); {
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Second):
				}
				c, err = a.dial(ctx, name, p.Hosts[name], progress)
			}
		}
		if err != nil {
			f.errs[name] = err
			continue
		}
		f.hosts[name] = c
	}
	return f
}

// way is the way to a host by its name.
func (f *fleet) way(name string) (conn.Conn, error) {
	if name == env.LocalHost {
		return f.localHost(), nil
	}
	if err := f.errs[name]; err != nil {
		return nil, err
	}
	if c := f.hosts[name]; c != nil {
		return c, nil
	}
	return nil, fault.New(fault.NotFound, "there is no host %q", name)
}

// size is how large a host is: how many CPUs its programs may use, and its
// memory.
func (f *fleet) size(name string) (cpus int, memory unit.Bytes, err error) {
	m, err := f.machine(name)
	if err != nil {
		return 0, 0, err
	}
	all, err := m.CPUs()
	return len(all), m.Memory(), err
}

// state is the folder on a host below which environments are made.
func (f *fleet) state(name string) string {
	if c := f.hosts[name]; c != nil {
		return c.StateDir()
	}
	state, _ := env.Dirs(f.env, os.Getuid())
	return state
}

// site is what can be looked at before anything is made.
func (f *fleet) site(drivers []driver.Driver) trial.Site {
	_, cache := env.Dirs(f.env, os.Getuid())
	return trial.Site{Drivers: drivers, Workloads: workloadall.Workloads(), Way: f.way, Size: f.size, State: f.state, Cache: cache}
}

// machine is a host by its name; "" is this machine.
func (f *fleet) machine(name string) (env.Machine, error) {
	if name == "" || name == env.LocalHost {
		return f.here(), nil
	}
	if c := f.hosts[name]; c != nil {
		return c, nil
	}
	return nil, fault.New(fault.NotFound, "host %q is not reached", name)
}

func (f *fleet) close() error {
	var errs []error
	for _, c := range f.hosts {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// onLocal tells whether a contender stands on this machine, or load comes from
// it.
func onLocal(p *plan.Plan) bool {
	return p.Generator == env.LocalHost || slices.ContainsFunc(p.Contenders, func(c plan.Contender) bool { return c.Host == "" || c.Host == env.LocalHost })
}

// managers open on every host that was reached and stays in its system. One that cannot be leased on
// is among the errors, for the contenders on it.
func (f *fleet) managers(ctx context.Context, run string, p *plan.Plan, drivers []driver.Driver, progress func(string)) (map[string]*env.Manager, error) {
	state, cache := env.Dirs(f.env, os.Getuid())
	out := map[string]*env.Manager{}
	for i, name := range sortedKeys(f.hosts) {
		c := f.hosts[name]
		if err := remember(state, name, p.Hosts[name]); err != nil {
			return out, err
		}
		if h := p.Hosts[name]; len(h.Switch) > 0 {
			f.boxes[name] = &env.Box{Name: name, At: c, Host: h, Systems: systemall.Systems(), Run: run,
				Ship: &env.Ship{Here: local.Conn{}, Cache: cache}, Progress: progress}
			continue
		}
		l, err := env.Open(ctx, env.Config{StateDir: c.StateDir(), CacheDir: c.CacheDir(), Host: c, Name: name, Agent: c.Agent(), Run: run, Meter: p.Hosts[name].Meter,
			Uplink: p.Hosts[name].Uplink, Place: byte(i + 1), // this machine's is 0
			Ship: &env.Ship{Here: local.Conn{}, Cache: cache}, Progress: progress}, drivers)
		if err != nil {
			f.errs[name] = fault.Op("host "+name, err)
			continue
		}
		out[name] = l
	}
	return out, nil
}

// hostDir is the folder below the state of this machine that remembers which
// hosts were leased on, so that clean finds them without their lab file.
const hostDir = "host"

// remember notes a host before anything is made on it.
func remember(state, name string, h manifest.Host) error {
	dir := filepath.Join(state, hostDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.Op("host "+name, err)
	}
	b, err := json.Marshal(manifest.Host{SSH: h.SSH, Port: h.Port, Dir: h.Dir})
	if err != nil {
		return fault.Op("host "+name, err)
	}
	return fault.Op("host "+name, local.Keep(filepath.Join(dir, name+".json"), append(b, '\n')))
}

// remembered returns the hosts that were leased on.
func remembered(state string) (map[string]manifest.Host, error) {
	out := map[string]manifest.Host{}
	files, err := filepath.Glob(filepath.Join(state, hostDir, "*.json"))
	if err != nil {
		return out, fault.Op("hosts", err)
	}
	for _, p := range files {
		b, err := readBounded(p, 1<<16)
		if err != nil {
			return out, err
		}
		var h manifest.Host
		if err := json.Unmarshal(b, &h); err != nil {
			return out, fault.Wrap(fault.Invalid, p, err)
		}
		out[strings.TrimSuffix(filepath.Base(p), ".json")] = h
	}
	return out, nil
}
