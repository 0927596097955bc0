package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/podman"
	"bakeoff/provision/engine"
	"bakeoff/provision/isolation"
	"bakeoff/reach/agent/setup"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// driverOf returns the driver of a technology; two technologies share one.
func driverOf(name string) string {
	if name == "crun" || name == "runc" {
		return "oci"
	}
	return name
}

// technologies returns those that have a bare command.
func technologies() []*technology {
	inside := []string{isolation.AgentPath, "list"}
	return []*technology{
		{name: "host", bare: func(b *bench) ([]string, error) { return []string{b.agent, "list"}, nil }, alike: hostByHand},
		{name: "chroot", image: true, alike: chrootByHand, bare: func(b *bench) ([]string, error) {
			return append([]string{"chroot", b.root}, inside...), nil
		}},
		{name: "bwrap", image: true, alike: bwrapByHand, bare: func(b *bench) ([]string, error) {
			return append([]string{"bwrap", "--unshare-all", "--bind", b.root, "/", "--proc", "/proc", "--dev", "/dev", "--"},
				inside...), nil
		}},
		{name: "crun", image: true, options: param.Values{"runtime": "crun"},
			bare:  func(b *bench) ([]string, error) { return bundleCommand(b, "crun", "crun", nil) },
			alike: containerByHand("crun")},
		{name: "runc", image: true, options: param.Values{"runtime": "runc"},
			bare:  func(b *bench) ([]string, error) { return bundleCommand(b, "runc", "runc", nil) },
			alike: containerByHand("runc")},
		{name: "nspawn", image: true, alike: nspawnByHand, bare: func(b *bench) ([]string, error) {
			return append([]string{"systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", "--private-network",
				"--directory", b.root}, inside...), nil
		}},
		{name: "lxc", image: true, bare: lxcRun, alike: lxcByHand},
		{name: "gvisor", image: true, bare: runscRun, alike: runscByHand},
		{name: "docker", image: true, options: param.Values{"engine": "private"}, bare: dockerRun,
			after: func(b *bench) []string {
				return []string{"docker", "--host", b.docker, "rm", "--force", b.containerName()}
			}},
		{name: "podman", image: true, options: param.Values{"runtime": "runc"}, bare: podmanRun,
			after: func(b *bench) []string {
				return []string{"podman", "--cgroup-manager=cgroupfs", "--runtime=runc", "rm", "--force", b.containerName()}
			}},
	}
}

// containerName returns the name of the one container that the bare commands create.
func (b *bench) containerName() string { return filepath.Base(b.dir) }

// prepare creates the root for the bare commands: an overlay over the image with the
// agent in it, as every environment has, but created once.
func (b *bench) prepare(ctx context.Context) (unmount func(), err error) {
	doc := driver.Doc{Image: true}
	if b.image, err = b.manager.Image(ctx, doc, "debian:bookworm", nil, nil); err != nil {
		return nil, err
	}
	b.cpu = b.manager.Layout().Subject(1)[0]
	b.root = filepath.Join(b.dir, "root")
	for _, d := range []string{"root", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(b.dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	root := wire.Root{At: b.root, Lower: b.image.Root, Upper: filepath.Join(b.dir, "upper"),
		Work: filepath.Join(b.dir, "work"),
		Dirs: []string{isolation.Scratch}, Binds: []wire.Bind{{From: b.agent, To: isolation.AgentPath, ReadOnly: true}}}
	cmd, err := setup.Command(wire.Setup{Root: &root}, b.agent)
	if err != nil {
		return nil, err
	}
	if _, err := conn.OutputOf(ctx, local.Conn{}, cmd); err != nil {
		return nil, err
	}
	return func() { exec.Command("umount", "--recursive", b.root).Run() }, nil
}

// bundleCommand returns a command that runs a runtime on its own default configuration
// (`spec`), with changes, in a directory of this name.
func bundleCommand(b *bench, runtime, name string, change func(map[string]any) error) ([]string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	spec := exec.Command(runtime, "spec")
	spec.Dir = dir
	if out, err := spec.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s spec: %w: %s", runtime, err, out)
	}
	err := editJSON(filepath.Join(dir, "config.json"), func(c map[string]any) error {
		process, ok := c["process"].(map[string]any)
		if !ok {
			return fmt.Errorf("%s spec: the configuration has no process", runtime)
		}
		process["args"], process["terminal"] = []string{isolation.AgentPath, "list"}, false
		// The default limits may exceed those of this machine.
		delete(process, "rlimits")
		c["root"] = map[string]any{"path": b.root, "readonly": false}
		if change != nil {
			return change(c)
		}
		return nil
	})
	argv := []string{runtime, "--root", filepath.Join(dir, "state"), "run", "--bundle", dir, b.containerName()}
	if layout, err := cgroup.Detect(context.Background(), local.Conn{}); err == nil && runtime == "crun" &&
		layout.String() == "hybrid" {
		// crun fails if it sees both versions of control groups.
		argv = append([]string{b.agent, "enter", "--private-mounts", "--umount", layout.V2, "--"}, argv...)
	}
	return argv, err
}

// engineFlags returns the flags that both engines get, the same that bakeoff gives them.
func (b *bench) engineFlags() []string {
	return []string{"run", "--name", b.containerName(), "--network", "none", "--cpuset-cpus", strconv.Itoa(b.cpu),
		"--memory", strconv.FormatInt(int64(memory), 10), "--memory-swap", strconv.FormatInt(int64(memory), 10),
		"--mount", "type=bind,source=" + b.agent + ",target=" + isolation.AgentPath + ",readonly"}
}

// dockerRun returns `docker run` on the engine and the image of the previous
// environment.
func dockerRun(b *bench) ([]string, error) {
	sockets, err := filepath.Glob(filepath.Join(b.dir, "state", "env", "*", "socket"))
	if err != nil || len(sockets) != 1 {
		return nil, fmt.Errorf("%d engines: %v", len(sockets), err)
	}
	b.docker = "unix://" + sockets[0]
	if b.tag, err = engine.Tag(b.image.Digest); err != nil {
		return nil, err
	}
	argv := append([]string{"docker", "--host", b.docker}, b.engineFlags()...)
	return append(argv, b.tag, isolation.AgentPath, "list"), nil
}

// podmanRun returns `podman run` on the unpacked image.
func podmanRun(b *bench) ([]string, error) {
	argv := append([]string{"podman", "--cgroup-manager=cgroupfs", "--runtime=runc"}, b.engineFlags()...)
	limits, err := podman.Ulimits(context.Background(), local.Conn{})
	if err != nil {
		return nil, err
	}
	argv = append(argv, limits...)
	return append(argv, "--rootfs", b.image.Root+":O", isolation.AgentPath, "list"), nil
}
