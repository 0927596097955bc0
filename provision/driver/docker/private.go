package docker

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/engine"
	"bakeoff/provision/isolation"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
)

// maxSocketPath is the longest socket path that containerd supports, in bytes
// (Linux supports 107). longestSocket is the longest name of a socket that
// dockerd and its containerd create below the engine's directory. With a longer
// path containerd does not start, and dockerd waits for it forever.
const (
	maxSocketPath = 104
	longestSocket = "exec/containerd/containerd-debug.sock"
)

// StartEngine starts a private engine if the options ask for one. The engine
// has its own storage, sockets and configuration in spec.Dir. On the experiment's network it
// creates no bridge and changes neither packet filter nor forwarding; for networks of its own
// it runs in a network namespace of its own, with which its bridges and rules disappear. It
// does not affect an engine of the machine. It runs on spec.CPUSet in a control group, by which
// Reap finds it.
func (Driver) StartEngine(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Engine, error) {
	o, err := decode(spec.Options)
	if err != nil || !o.private {
		return nil, err
	}
	if most := maxSocketPath - len("/"+longestSocket); len(path.Clean(spec.Dir)) > most {
		return nil, fault.WithFix(fault.New(fault.Lab,
			"the path %s is too long for the engine's sockets: the limit is %d bytes", spec.Dir, most),
			"set BAKEOFF_STATE to a shorter path")
	}
	layout, err := cgroup.Detect(ctx, host)
	if err != nil {
		return nil, err
	}
	d := &daemon{host: host, spec: spec, network: o.Network, ended: make(chan struct{})}
	if d.group, err = layout.Create(ctx, host, spec.Label, cgroup.Limits{CPUSet: spec.CPUSet}); err != nil {
		return nil, err
	}
	if err := d.start(ctx); err != nil {
		whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, d.Close(whole))
	}
	return d, nil
}

// daemon is a private engine.
type daemon struct {
	host    conn.Conn
	spec    driver.Spec
	network engine.Network
	group   *cgroup.Group
	cancel  context.CancelFunc
	ended   chan struct{} // closed when it has ended

	mu     sync.Mutex
	said   conn.Tail
	result error
}

// Write keeps the end of the daemon's log.
func (d *daemon) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said.Limit = 2048
	return d.said.Write(p)
}

func (d *daemon) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.TrimSpace(string(d.said.Bytes()))
}

func (d *daemon) dir(name string) string { return path.Join(d.spec.Dir, name) }

func (d *daemon) socket() string { return "unix://" + d.dir("socket") }

// Options direct an environment to this engine.
func (d *daemon) Options() param.Values {
	out := maps.Clone(d.spec.Options)
	out["socket"] = d.socket()
	return out
}

// startTime bounds how long the engine may take to answer.
const startTime = time.Minute

func (d *daemon) start(ctx context.Context) error {
	// Without its own file it would read that of the machine's engine.
	if err := d.host.Push(ctx, d.dir("daemon.json"), 0o644, strings.NewReader("{}\n")); err != nil {
		return err
	}
	enter := []string{d.spec.Agent, "enter"}
	if d.network != engine.Experiment {
		in := netns.Own(d.spec.Label)
		if err := netns.CreateShared(ctx, d.host, d.spec.Label); err != nil {
			return err
		}
		if err := d.host.Push(ctx, d.dir(namespaceFile), 0o644, strings.NewReader(in)); err != nil {
			return err
		}
		enter = append(enter, "--netns", netns.Path(in))
	}
	argv := slices.Concat(enter, d.group.EnterArgs(), []string{"--", "dockerd",
		"--config-file", d.dir("daemon.json"), "--data-root", d.dir("data"), "--exec-root", d.dir("exec"), "--pidfile",
		d.dir("pid"), "--host", d.socket(), "--exec-opt", "native.cgroupdriver=cgroupfs"}, networkFlags(d.network))
	var life context.Context
	life, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(d.ended)
		exit, err := d.host.Exec(life, conn.Cmd{Argv: argv, Stdout: d, Stderr: d})
		if err == nil {
			err = fault.New(fault.Lab, "dockerd ended with %v: %s", exit, d.log())
		}
		d.result = err
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		_, err := ask(ctx, cli(d.host, d.socket()))
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return fault.Op("dockerd", d.result)
		case <-ctx.Done():
			return fault.New(fault.Lab, "dockerd does not answer: %w: %s", ctx.Err(), d.log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// networkFlags are the flags of dockerd for a network. Bridges are as Docker makes them by
// default; without the packet filter only docker-proxy publishes ports.
func networkFlags(n engine.Network) []string {
	switch n {
	case engine.Bridge, engine.Published:
		return []string{"--ip6tables=false"}
	case engine.Proxy:
		return []string{"--iptables=false", "--ip6tables=false", "--ip-masq=false"}
	default:
		return []string{"--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"}
	}
}

// Close stops the engine and removes what it created outside of its directory.
func (d *daemon) Close(ctx context.Context) error {
	err := d.group.Kill(ctx)
	if d.cancel != nil {
		d.cancel()
		select {
		case <-d.ended:
		case <-ctx.Done():
			return fault.Op("dockerd: stop", errors.Join(err, ctx.Err()))
		}
	}
	_, rerr := isolation.Reap(ctx, d.host, driver.Leftover{Label: d.spec.Label, Dir: d.spec.Dir}, false)
	return fault.Op("dockerd: stop", errors.Join(err, rerr))
}

// checkPrivate tells whether a private engine can run.
func checkPrivate(ctx context.Context, host conn.Conn) driver.Availability {
	a := isolation.Check(ctx, host, isolation.Needs{Overlay: true, Programs: map[string]string{
		name: "docker.io", "dockerd": "docker.io", "containerd": "containerd", isolation.Runc: isolation.Runc, "tar": "tar"}})
	if !a.OK {
		return commandOf(ctx, host, a)
	}
	out, err := isolation.Version(ctx, host, "dockerd")
	if err != nil {
		return driver.Unavailable(err)
	}
	a.Facts["version"], a.Facts["engine"] = out, "private"
	return a
}

// reachable tells whether an engine answers. A private engine has ended with
// its controller, and its containers are found by their control groups.
func reachable(ctx context.Context, c engine.CLI, m made) bool {
	if !m.Private {
		return true // it must answer, or a container would stay unseen
	}
	_, err := ask(ctx, c)
	return err == nil
}
