package firecracker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
)

// api is Firecracker's, over its Unix socket.
type api struct {
	host   conn.Conn
	socket string
}

const (
	apiTime  = 15 * time.Second
	maxReply = 64 << 10
)

// call sends body and reads the answer into value, where there is one.
func (a api) call(ctx context.Context, method, at string, body, value any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+at, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return a.host.Dial(ctx, "unix", a.socket)
	}}}
	op := "firecracker: " + method + " " + at
	res, err := c.Do(req)
	if err != nil {
		return fault.Wrap(fault.Lab, op, err)
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return fault.Wrap(fault.Lab, op, err)
	}
	if res.StatusCode/100 != 2 {
		var f struct {
			Message string `json:"fault_message"`
		}
		json.Unmarshal(reply, &f)
		return fault.New(fault.Lab, "%s: %s: %s", op, res.Status, safetext.Line(f.Message))
	}
	if value == nil {
		return nil
	}
	return fault.Wrap(fault.Lab, op, json.Unmarshal(reply, value))
}

// drive is a disk of the guest.
type drive struct{ id, path, serial string }

// limits are those of all of Firecracker; the memory is the machine's own.
func (in *Instance) limits() cgroup.Limits {
	return cgroup.Limits{CPUSet: in.Spec.CPUSet, Quota: in.Spec.Quota, IO: cgroup.IO{Read: in.Spec.Read, Write: in.Spec.Write, Dir: in.Spec.Dir}}
}

func (in *Instance) build(ctx context.Context, set param.Values) error {
	drives, err := in.storage(ctx)
	if err != nil {
		return err
	}
	if err := in.kernel(ctx, set, drives); err != nil {
		return err
	}
	layout, err := cgroup.Detect(ctx, in.Host)
	if err != nil {
		return err
	}
	if in.group, err = layout.Create(ctx, in.Host, in.Spec.Label, in.limits()); err != nil {
		return err
	}
	enter := append([]string{in.Spec.Agent, "enter"}, in.group.EnterArgs()...)
	if n := in.Spec.Network; n != nil {
		if err := in.remember(ctx, n); err != nil {
			return err
		}
		if err := netns.AttachTap(ctx, in.Host, *n, in.Spec.Label); err != nil {
			return err
		}
		enter = append(enter, "--netns", n.Namespace)
	}
	p := in.Start(ctx, append(enter, "--dir", in.Spec.Dir, "--", set.Text(optProgram), "--api-sock", in.api.socket, "--id", in.Spec.Label)...)
	var info struct {
		Version string `json:"vmm_version"`
		State   string `json:"state"`
	}
	if err := in.wait(ctx, p, func() error { return in.api.call(ctx, "GET", "/", nil, &info) }, apiTime); err != nil {
		return err
	}
	if err := in.configure(ctx, set, drives); err != nil {
		return err
	}
	timeout := set.Duration(optBootTimeout)
	var rw io.ReadWriteCloser
	err = in.wait(ctx, p, func() (err error) { rw, err = in.dial(ctx); return err }, timeout)
	if err != nil {
		return err
	}
	if err := in.Meet(ctx, rw, p, timeout); err != nil {
		return err
	}
	in.describe(set, info.Version)
	return nil
}

// wait tries until it goes well, the process ends, or the time is over.
func (in *Instance) wait(ctx context.Context, p *guest.Process, try func() error, timeout time.Duration) error {
	end := time.After(timeout)
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.Ended():
			return p.Why("it did not come up: Firecracker has ended")
		case <-end:
			return p.Why(fmt.Sprintf("it did not come up within %v: %v", timeout, err))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dial asks Firecracker for the agent's port in the guest: a connection to the
// socket says CONNECT and the port, and is told OK and another when somebody
// listens there.
func (in *Instance) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := in.Host.Dial(ctx, "unix", path.Join(in.Spec.Dir, socketVsock))
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(apiTime))
	r := bufio.NewReaderSize(c, 64)
	_, err = fmt.Fprintf(c, "CONNECT %d\n", agentPort)
	var line []byte
	if err == nil {
		line, err = r.ReadSlice('\n')
	}
	if err == nil && !bytes.HasPrefix(line, []byte("OK ")) {
		err = fault.New(fault.Lab, "vsock: %q instead of OK", safetext.Line(string(line)))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return greeted{c, r}, nil
}

// greeted reads what came behind the greeting first.
type greeted struct {
	net.Conn
	r io.Reader
}

func (g greeted) Read(p []byte) (int, error) { return g.r.Read(p) }

// storage makes the files of drives, the root first. The root is a copy: by
// reference where the file system can.
func (in *Instance) storage(ctx context.Context) ([]drive, error) {
	root := path.Join(in.Spec.Dir, fileRoot)
	if err := guest.Run(ctx, in.Host, "cp", "--reflink=auto", "--sparse=always", in.Spec.Image.Disk, root); err != nil {
		return nil, err
	}
	drives := []drive{{id: "root", path: root}}
	for i, v := range in.Spec.Volumes {
		at := v.Device
		switch v.Backing {
		case volume.Tmpfs:
			continue
		case volume.Ext4:
			var err error
			if at, err = volume.File(ctx, in.Host, in.Spec.Dir, v); err != nil {
				return nil, err
			}
		case volume.Disk:
			if err := volume.CheckDisk(ctx, in.Host, v.Device); err != nil {
				return nil, err
			}
		}
		drives = append(drives, drive{id: "volume" + strconv.Itoa(i), path: at})
	}
	for i := range drives {
		// Firecracker's serial number is made of the file's own numbers: its
		// device, the device that it is, its inode; 20 bytes of it.
		out, err := guest.Output(ctx, in.Host, "stat", "-L", "-c", "%d %r %i", drives[i].path)
		if err != nil {
			return nil, err
		}
		serial := strings.Join(strings.Fields(out), "")
		drives[i].serial = serial[:min(len(serial), 20)]
	}
	return drives, nil
}

// maxKernel bounds a kernel image, in bytes.
const maxKernel = 256 << 20

// kernel puts the kernel, unpacked, and the initial RAM disk into the
// directory.
func (in *Instance) kernel(ctx context.Context, set param.Values, drives []drive) error {
	kernel, modules := in.Spec.Image.Kernel, in.Spec.Image.Modules
	if k := set.Text(optKernel); k != "" {
		kernel, modules = k, set.Text(optModules)
	}
	var image bytes.Buffer
	if err := in.Host.Pull(ctx, kernel, &limited{w: &image, left: maxKernel}); err != nil {
		return err
	}
	elf, err := vmlinux(image.Bytes())
	if err != nil {
		return fault.Wrap(fault.Invalid, "kernel "+kernel, err)
	}
	if err := in.Host.Push(ctx, path.Join(in.Spec.Dir, fileKernel), 0o644, bytes.NewReader(elf)); err != nil {
		return err
	}
	wanted := []string{"virtio_mmio", "virtio_blk", "ext4", "vmw_vsock_virtio_transport"}
	if in.Spec.Network != nil {
		wanted = append(wanted, "virtio_net")
	}
	text, err := json.Marshal(agent.InitramfsRequest{Kernel: kernel, Modules: modules, Wanted: wanted, Agent: in.Spec.Agent,
		Config: initConfig(in.Spec, drives), Out: path.Join(in.Spec.Dir, fileInitrd)})
	if err != nil {
		return err
	}
	_, err = conn.OutputOf(ctx, in.Host, conn.Cmd{Argv: []string{in.Spec.Agent, "initramfs"}, Stdin: bytes.NewReader(text)})
	return err
}

// limited refuses what is too long.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fault.New(fault.Invalid, "longer than %d bytes", maxKernel)
	}
	return l.w.Write(p)
}

// initConfig is what the agent does as init of this guest.
func initConfig(spec driver.Spec, drives []drive) agent.InitConfig {
	c := agent.InitConfig{Schema: agent.InitSchema, Port: fmt.Sprintf("vsock:%d", agentPort), Root: drives[0].serial, RootType: "ext4", Hostname: "guest"}
	for i, v := range spec.Volumes {
		iv := agent.InitVolume{Path: v.Path, Type: "tmpfs", Size: v.Size}
		if d := slices.IndexFunc(drives, func(d drive) bool { return d.id == "volume"+strconv.Itoa(i) }); d >= 0 {
			iv = agent.InitVolume{Path: v.Path, Type: "ext4", Serial: drives[d].serial}
		}
		c.Volumes = append(c.Volumes, iv)
	}
	if n := spec.Network; n != nil {
		c.Network = &agent.InitNetwork{MAC: n.MAC, Addr: n.Addr}
	}
	for name, value := range spec.Tuning {
		c.Sysctl = append(c.Sysctl, agent.InitSetting{Name: name, Value: value})
	}
	slices.SortFunc(c.Sysctl, func(a, b agent.InitSetting) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// configure tells Firecracker what the machine is, and starts it.
func (in *Instance) configure(ctx context.Context, set param.Values, drives []drive) error {
	type step struct {
		at   string
		body map[string]any
	}
	args := strings.TrimSpace("console=ttyS0 reboot=k panic=-1 quiet loglevel=4 cryptomgr.notests " + set.Text(optAppend))
	steps := []step{
		{"/machine-config", map[string]any{"vcpu_count": in.Spec.CPUs, "mem_size_mib": int64(in.Spec.Memory / unit.MiB), "smt": false}},
		{"/boot-source", map[string]any{"kernel_image_path": path.Join(in.Spec.Dir, fileKernel), "initrd_path": path.Join(in.Spec.Dir, fileInitrd), "boot_args": args}},
	}
	for _, d := range drives {
		steps = append(steps, step{"/drives/" + d.id, map[string]any{"drive_id": d.id, "path_on_host": d.path, "is_root_device": false,
			"is_read_only": false, "cache_type": set.Text(optCache), "io_engine": set.Text(optEngine)}})
	}
	if n := in.Spec.Network; n != nil {
		steps = append(steps, step{"/network-interfaces/eth0", map[string]any{"iface_id": "eth0", "guest_mac": n.MAC, "host_dev_name": netns.Tap(in.Spec.Label)}})
	}
	steps = append(steps,
		step{"/vsock", map[string]any{"guest_cid": 3, "uds_path": path.Join(in.Spec.Dir, socketVsock)}},
		step{"/actions", map[string]any{"action_type": "InstanceStart"}})
	for _, s := range steps {
		if err := in.api.call(ctx, "PUT", s.at, s.body, nil); err != nil {
			return err
		}
	}
	return nil
}

func (in *Instance) describe(set param.Values, version string) {
	limits := in.group.Limits()
	memory := in.Spec.Memory
	limits.Memory = &memory
	delete(limits.NotEnforced, "memory")
	p := &in.Properties
	p.Limits, p.OwnKernel = limits, true
	p.Facts["firecracker"], p.Facts["accelerator"] = safetext.Line(version), "kvm"
	p.Facts["kernel"] = safetext.Line(in.Boot.Kernel)
	p.Facts["root"], p.Facts["disk.cache"], p.Facts["disk.engine"] = "virtio-blk, a copy of the image", set.Text(optCache), set.Text(optEngine)
	p.Facts["kernel.append"] = set.Text(optAppend)
	for _, v := range in.Spec.Volumes {
		p.Volumes[v.Path] = v.Path
	}
	if n := in.Spec.Network; n != nil {
		p.Addr = n.Addr.Addr()
	}
}
