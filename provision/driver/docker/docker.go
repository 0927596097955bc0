// Package docker is the driver for containers of Docker's engine, as the docker
// command creates them.
//
// An image of a registry or an archive is loaded as it is there, so that its ID is the one
// that a pull gives it. Of every other image, and of one with volumes or placed files, the
// driver imports bakeoff's own root, so that Docker runs the same files as every other
// technology. Both happen once per digest. The image stays in the engine as
// bakeoff.invalid/bakeoff…, one for each name in a lab file; a new one replaces the
// previous one.
//
//	docker image rm $(docker image ls --quiet --filter 'reference=bakeoff.invalid/bakeoff*')
//
// removes them all.
package docker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/engine"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
)

// Driver runs things in containers of Docker.
type Driver struct{}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return engine.Doc(driver.Doc{
		Name: name,
		Also: map[string]string{"moby": "docker", "docker-ce": "docker"},
		Summary: "a Docker container: Docker's capabilities, seccomp filter and storage, on the experiment's network or " +
			"Docker's",
		Options: []param.Spec{
			{Name: "engine", Kind: param.Text, Default: "running", Enum: []string{"private", "running"},
				Doc: "Docker engine that runs the containers. running: the engine that already runs on the host. " +
					"private: an engine that bakeoff starts for this run, with its own storage, and stops at the " +
					"end of the run."},
			{Name: "socket", Kind: param.Text, Default: "",
				Doc: "Socket of the running engine on the host, such as unix:///run/docker.sock. If not set, the " +
					"docker command uses its default."},
			engine.NetworkOption(engine.Experiment, engine.HostNet, engine.Bridge, engine.Published, engine.Proxy),
		},
		Packages: []string{"docker.io", "tar"},
		Source:   []string{"docker-run(1)", "docker-import(1)", "dockerd(8)"},
	})
}

// name is that of the driver and of the program.
const name = "docker"

// options are the options of one container.
type options struct {
	engine.Options
	private bool   // an engine of the run's own
	socket  string // of the engine; "" is the default of the docker command
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options((Driver{}).Doc().Options, v)
	o := options{engine.Decode(set), set.Text("engine") == "private", set.Text("socket")}
	if err == nil {
		err = checkSocket(o.socket)
	}
	if err == nil && o.Network == engine.Proxy && !o.private {
		err = fault.WithFix(fault.New(fault.Invalid, "network: proxy needs an engine without a packet filter, but "+
			"the engine of the machine has a packet filter"), "set engine: private, or network: published")
	}
	return o, err
}

// checkSocket checks that socket is the address of a socket on the host.
func checkSocket(socket string) error {
	p, ok := strings.CutPrefix(socket, "unix://")
	if socket != "" && (!ok || !path.IsAbs(p) || path.Clean(p) != p) {
		return fault.WithFix(fault.New(fault.Invalid, "option socket: %q is not a socket on the host", socket),
			"write unix:///run/docker.sock; an engine elsewhere is reached by a host of the lab file")
	}
	return nil
}

func cli(host conn.Conn, socket string) engine.CLI {
	argv := []string{name}
	if socket != "" {
		argv = append(argv, "--host", socket)
	}
	return engine.CLI{Host: host, Name: name, Argv: argv}
}

// info is the part of `docker info` that bakeoff uses.
type info struct {
	ServerVersion, Driver, CgroupDriver, OSType, DefaultRuntime string
}

const startFix = "run systemctl start docker, or set engine: private in the lab file"

// ask gets the description of the engine.
func ask(ctx context.Context, c engine.CLI) (i info, err error) {
	out, err := c.Ask(ctx, "info", "--format", "{{json .}}")
	if err == nil {
		i, err = parseInfo(out)
	}
	if fault.Is(err, fault.NotFound) || ctx.Err() != nil {
		return i, err
	}
	return i, engine.Alive(err, "docker's engine does not answer", startFix)
}

// parseInfo parses the engine's description. Without an engine the client
// prints one with empty fields.
func parseInfo(out string) (i info, err error) {
	if err := json.Unmarshal([]byte(out), &i); err != nil {
		return i, fault.New(fault.Lab, "docker info: %.200q: %v", out, err)
	}
	if i.ServerVersion == "" || i.OSType != "linux" {
		return i, fault.New(fault.Lab, "docker info: not an engine for Linux (version %q, system %q)", i.ServerVersion,
			i.OSType)
	}
	return i, nil
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	o, err := decode(values)
	if err != nil {
		return driver.Unavailable(err)
	}
	if o.private && o.socket == "" {
		return checkPrivate(ctx, host)
	}
	a := isolation.Check(ctx, host, isolation.Needs{Programs: map[string]string{name: "docker.io", "tar": "tar"}})
	if !a.OK {
		return commandOf(ctx, host, a)
	}
	i, err := ask(ctx, cli(host, o.socket))
	if err != nil {
		return driver.Unavailable(err)
	}
	maps.Copy(a.Facts, i.facts())
	return a
}

// commandOf names the package of the docker command if the engine is installed
// without it: Debian 13 has it in a package that docker.io only recommends.
func commandOf(ctx context.Context, host conn.Conn, a driver.Availability) driver.Availability {
	i := slices.Index(a.Packages, "docker.io")
	if i < 0 || slices.Contains(a.Programs, "dockerd") {
		return a
	}
	if _, err := host.Exec(ctx, conn.Command("dockerd", "--version")); err != nil {
		return a // so both are missing
	}
	a.Packages = slices.Clone(a.Packages)
	a.Packages[i] = "docker-cli"
	a.Fix = "apt-get install " + strings.Join(a.Packages, " ")
	return a
}

func (i info) facts() map[string]string {
	return map[string]string{"version": i.ServerVersion, "storage": i.Driver, "runtime": i.DefaultRuntime,
		"cgroup-driver": i.CgroupDriver}
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	if err := engine.Refuse(spec); err != nil {
		return nil, err
	}
	o, err := decode(spec.Options)
	if err != nil {
		return nil, err
	}
	if o.private && o.socket == "" {
		return nil, fault.New(fault.Invalid, "the private engine does not run: call StartEngine first")
	}
	o.Options = o.For(spec)
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error {
		c := &container{engine.Container{CLI: cli(host, o.socket), Env: e, Options: o.Options}, o}
		c.Dir = spec.Dir
		return c.build(ctx)
	})
}

// Validate refuses options and networks that Create refuses on any host.
func (Driver) Validate(spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err == nil {
		err = o.Options.Validate(spec)
	}
	return err
}

type container struct {
	engine.Container
	options options
}

func (c *container) build(ctx context.Context) error {
	e := c.Env
	tag, err := engine.Tag(e.Spec.Image.Digest)
	if err != nil {
		return err
	}
	var volumes map[string]string
	i := info{CgroupDriver: "cgroupfs"} // as bakeoff configures its own engine
	err = isolation.Together(
		func() (err error) { volumes, err = e.Volumes(ctx); return err },
		func() (err error) {
			if !c.options.private {
				i, err = c.info(ctx)
			}
			return err
		},
		func() error {
			return remember(ctx, e, made{Socket: c.options.socket, Private: c.options.private, Network: c.Options.Network})
		})
	if err != nil {
		return err
	}
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	if cgroupfs(i) {
		if err := e.Reserve(ctx, ""); err != nil {
			return err
		}
	}
	e.OnClose, e.Details = c.close, c.State
	if err := c.attach(ctx); err != nil {
		return err
	}
	id, err := c.start(ctx, tag, c.flags(i, volumes))
	if err != nil {
		return err
	}
	if err := c.Find(ctx, id); err != nil {
		return err
	}
	err = isolation.Together(
		func() error { return c.join(ctx) },
		func() (err error) {
			if i.ServerVersion == "" {
				i, err = c.info(ctx)
			}
			return err
		})
	if err != nil {
		return err
	}
	maps.Copy(e.Facts(), i.facts())
	if e.Facts()["engine"] = "running"; c.options.private {
		e.Facts()["engine"] = "private"
	}
	return c.Enter(ctx)
}

// info is the description of the engine, asked once per run, because asking
// takes as long as creating a container.
func (c *container) info(ctx context.Context) (info, error) {
	return driver.Remember(c.Env.Spec.Memo, "docker info "+c.options.socket,
		func() (info, error) { return ask(ctx, c.CLI) })
}

// cgroupfs tells whether the engine creates control groups where it is asked
// to.
func cgroupfs(i info) bool { return i.CgroupDriver == "cgroupfs" }

// flags are the flags of `docker run`. On the experiment's network the container has none of
// the engine; the link is added to its namespace.
func (c *container) flags(i info, volumes map[string]string) []string {
	network := []string{"--network", "none"}
	if c.Options.Network != engine.Experiment {
		network = c.NetworkFlags()
	}
	out := slices.Concat([]string{"run"}, network, c.Flags(volumes))
	if cgroupfs(i) {
		out = append(out, "--cgroup-parent", cgroup.Path(c.Env.Spec.Label))
	}
	return out
}

// start runs the container and returns its identifier. If the image is missing, start
// loads it first as the registry has it, or else imports its root.
func (c *container) start(ctx context.Context, tag string, flags []string) (id string, err error) {
	if id, err := c.RunSaved(ctx, flags); !errors.Is(err, engine.ErrNotLoaded) {
		return id, err
	}
	run := func() (string, error) {
		return c.Do(ctx, append(append(slices.Clone(flags), tag), c.First()...)...)
	}
	id, first := run()
	if first == nil {
		return id, nil
	}
	if have, err := c.Ask(ctx, "image", "ls", "--quiet", tag); err != nil || have != "" {
		return "", first
	}
	if err := c.load(ctx, tag); err != nil {
		return "", fault.Op("docker: the image "+c.Env.Spec.Image.Ref, err)
	}
	return run()
}

// load imports the root of the image.
func (c *container) load(ctx context.Context, tag string) error {
	image, file := c.Env.Spec.Image, c.Env.Dir("image.tar")
	_, err := conn.Output(ctx, c.Host, "tar", "--create", "--file", file, "--numeric-owner", "--xattrs",
		"--xattrs-include=security.capability", "--xattrs-include=user.*",
		"--directory", image.Root, ".")
	if err == nil {
		_, err = c.Do(ctx, "import", "--change", "LABEL bakeoff.ref="+image.Ref, file, tag)
	}
	if _, rerr := conn.Output(context.WithoutCancel(ctx), c.Host, "rm", "-f", file); err == nil {
		err = rerr
	}
	if err != nil {
		return err
	}
	return c.replace(ctx, tag)
}

// replace removes the previous import of an image with the same name. The
// engine keeps it while a container uses it.
func (c *container) replace(ctx context.Context, tag string) error {
	out, err := c.Ask(ctx, "image", "ls", "--filter", "label=bakeoff.ref="+c.Env.Spec.Image.Ref, "--format",
		"{{.Repository}}:{{.Tag}}")
	for _, other := range strings.Fields(out) {
		if repository, _, _ := strings.Cut(tag, ":"); other != tag && strings.HasPrefix(other, repository+":") {
			c.Do(ctx, "image", "rm", other)
		}
	}
	return err
}

// socketFile is the file in an environment's directory that names its engine,
// because Reap does not know the options.
const socketFile = "docker.json"

type made struct {
	Socket  string         `json:"socket"`
	Private bool           `json:"private"`
	Network engine.Network `json:"network,omitempty"`
}

func remember(ctx context.Context, e *isolation.Env, m made) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return e.Host.Push(ctx, e.Dir(socketFile), 0o644, strings.NewReader(string(text)))
}

// recall reads that file. Without it there is no container.
func recall(ctx context.Context, host conn.Conn, dir string) (m made, have bool, err error) {
	b, err := conn.FilesOf(host).ReadFile(ctx, path.Join(dir, socketFile))
	if fault.Is(err, fault.NotFound) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, false, fault.New(fault.Lab, "%s: %w", path.Join(dir, socketFile), err)
	}
	err = checkSocket(m.Socket)
	return m, err == nil, err
}

// Reap removes what an environment or a private engine has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	m, have, err := recall(ctx, host, left.Dir)
	if err != nil {
		return nil, fault.Op("docker", err)
	}
	var found []string
	if c := cli(host, m.Socket); have && reachable(ctx, c, m) {
		if found, err = engine.Reap(ctx, c, left.Label, dryRun); err != nil {
			return found, err
		}
	}
	if !m.Private && m.Network != "" && m.Network != engine.Experiment {
		lines, err := reapNetwork(ctx, host, left.Label, dryRun)
		if found = append(found, lines...); err != nil {
			return found, fault.Op("docker", err)
		}
	}
	more, err := isolation.Reap(ctx, host, left, dryRun)
	return append(found, more...), err
}
