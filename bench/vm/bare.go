package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/lab/hosts"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
)

// machine returns what starts QEMU with the files of the service.
func (b *bench) machine(ram bool) func(ctx context.Context) (func() error, error) {
	return func(ctx context.Context) (func() error, error) {
		khz, err := b.tsc()
		if err != nil {
			return nil, err
		}
		argv := []string{"-M", "microvm,accel=tcg", "-cpu", "max", "-nodefaults", "-no-user-config", "-nographic",
			"-no-reboot", "-serial", "file:" + filepath.Join(b.dir, "console"),
			"-netdev", "user,id=n,hostfwd=tcp:127.0.0.1:" + strconv.Itoa(b.port) + "-:80",
			"-device", "virtio-net-device,netdev=n", "-kernel", b.built.Kernel.Path, "-append",
			"console=ttyS0 panic=-1 reboot=t quiet loglevel=4 cryptomgr.notests tsc_early_khz=" + khz +
				" tsc=reliable lpj=4000000 no_timer_check"}
		if ram {
			argv = append(argv, "-m", "1024", "-initrd", b.built.RAM.Path)
		} else {
			argv = append(argv, "-m", "512", "-initrd", b.built.Boot.Path,
				"-drive", "if=none,id=d,format=raw,snapshot=on,file="+b.built.Disk.Path, "-device", "virtio-blk-device,drive=d")
		}
		c := exec.CommandContext(ctx, "qemu-system-x86_64", argv...)
		if err := c.Start(); err != nil {
			return nil, err
		}
		return func() error { return end(c) }, nil
	}
}

// end kills a command.
func end(c *exec.Cmd) error {
	err := c.Process.Kill()
	if werr := c.Wait(); werr != nil && c.ProcessState == nil {
		err = errors.Join(err, werr)
	}
	return err
}

// bareContainer is what `crun run` needs.
type bareContainer struct {
	dir, root, netns string
	argv             []string
	local.Conn
}

// prepareContainer mounts a root over the image of the service, makes a network namespace,
// and writes the configuration of crun.
func (b *bench) prepareContainer(ctx context.Context) (_ *bareContainer, err error) {
	store := hosts.Controller{Getenv: os.Getenv}.Images(func(text string) { fmt.Fprintln(os.Stderr, text) })
	img, err := store.Get(ctx, image.Request{Ref: b.built.Image})
	if err != nil {
		return nil, err
	}
	p := &bareContainer{dir: filepath.Join(b.dir, "bare"), netns: "bench-vm-" + strconv.Itoa(os.Getpid())}
	p.root, p.Conn = filepath.Join(p.dir, "root"), local.Conn{Netns: p.netns}
	for _, d := range []string{"root", "upper", "work", "state"} {
		if err := os.MkdirAll(filepath.Join(p.dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	for _, argv := range [][]string{
		{"mount", "-t", "overlay", "overlay", "-o", "lowerdir=" + img.Dir + ",upperdir=" + filepath.Join(p.dir, "upper") +
			",workdir=" + filepath.Join(p.dir, "work"), p.root},
		{"ip", "netns", "add", p.netns}, {"ip", "-n", p.netns, "link", "set", "lo", "up"},
		{"sh", "-c", "cd " + p.dir + " && exec crun spec"}} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
	}
	if img.Config == nil {
		return nil, fault.New(fault.Lab, "%s has no configuration", b.built.Image)
	}
	if err := p.configure(append(img.Config.Entrypoint, img.Config.Cmd...)); err != nil {
		return nil, err
	}
	p.argv = []string{"crun", "--root", filepath.Join(p.dir, "state"), "--cgroup-manager=cgroupfs", "run",
		"--bundle", p.dir, p.netns}
	if layout, err := cgroup.Detect(ctx, local.Conn{}); err == nil && layout.String() == "hybrid" {
		// crun fails if it sees both versions of control groups.
		p.argv = append([]string{filepath.Join(b.dir, "bakeoff-agent"), "enter", "--private-mounts", "--umount", layout.V2,
			"--"}, p.argv...)
	}
	return p, nil
}

// configure changes the configuration that crun has written.
func (p *bareContainer) configure(argv []string) error {
	file := filepath.Join(p.dir, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	process, ok := c["process"].(map[string]any)
	linux, ok2 := c["linux"].(map[string]any)
	if !ok || !ok2 {
		return fault.New(fault.Lab, "crun spec writes no process")
	}
	process["args"], process["terminal"] = argv, false
	delete(process, "rlimits") // the default limits may exceed those of this machine
	all := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID", "CAP_NET_BIND_SERVICE",
		"CAP_KILL", "CAP_SETPCAP"}
	process["capabilities"] = map[string]any{"bounding": all, "effective": all, "permitted": all}
	c["root"] = map[string]any{"path": p.root, "readonly": false}
	namespaces, _ := linux["namespaces"].([]any)
	for _, n := range namespaces {
		if m, ok := n.(map[string]any); ok && m["type"] == "network" {
			m["path"] = "/run/netns/" + p.netns
		}
	}
	out, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(file, out, 0o600)
}

func (p *bareContainer) start(ctx context.Context) (func() error, error) {
	c := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		return nil, err
	}
	return func() error { // crun removes the container when its program has ended
		argv := []string{"--root", filepath.Join(p.dir, "state"), "--cgroup-manager=cgroupfs", "kill", p.netns, "KILL"}
		if out, err := exec.Command("crun", argv...).CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("crun kill: %w: %s%s", err, out, said.String()), end(c))
		}
		_ = c.Wait() // its program was killed
		return nil
	}, nil
}

func (p *bareContainer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return p.Conn.Dial(ctx, network, address)
}

// remove removes what was made.
func (p *bareContainer) remove() error {
	var errs []error
	for _, argv := range [][]string{{"ip", "netns", "delete", p.netns}, {"umount", p.root}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out))
		}
	}
	return errors.Join(errs...)
}
