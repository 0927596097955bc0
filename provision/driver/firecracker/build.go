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

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/guest"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// api is Firecracker's API on its Unix socket.
type api struct {
	host   conn.Conn
	socket string
}

const (
	apiTime  = 15 * time.Second
	maxReply = 64 << 10
)

// call sends body and decodes the answer into value, unless value is nil.
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
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
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

func (in *Instance) build(ctx context.Context, o options) error {
	drives, err := in.storage(ctx)
	if err != nil {
		return err
	}
	if err := in.kernel(ctx, o, drives); err != nil {
		return err
	}
	p, err := in.Launch(ctx, conn.Command(o.program, "--api-sock", in.api.socket, "--id", in.Spec.Label))
	if err != nil {
		return err
	}
	in.Console = p
	var info struct {
		Version string `json:"vmm_version"`
		State   string `json:"state"`
	}
	if err := p.Until(ctx, apiTime, func() error { return in.api.call(ctx, "GET", "/", nil, &info) }); err != nil {
		return err
	}
	if err := in.configure(ctx, o, drives); err != nil {
		return err
	}
	timeout := o.bootTimeout
	var rw io.ReadWriteCloser
	err = p.Until(ctx, timeout, func() (err error) { rw, err = in.dial(ctx); return err })
	if err != nil {
		return err
	}
	if err := in.Meet(ctx, rw, p, timeout); err != nil {
		return err
	}
	in.describe(o, info.Version)
	return nil
}

// dial connects to the agent's port in the guest through Firecracker: it writes
// CONNECT and the port, and Firecracker answers OK and another port when the
// agent listens.
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

// greeted first reads what was buffered after the greeting.
type greeted struct {
	net.Conn
	r io.Reader
}

func (g greeted) Read(p []byte) (int, error) { return g.r.Read(p) }

// storage creates the files of the drives, the root first. The root is a copy,
// by reference if the file system supports that.
func (in *Instance) storage(ctx context.Context) ([]drive, error) {
	root := path.Join(in.Spec.Dir, fileRoot)
	if err := guest.Run(ctx, in.Host, "cp", "--reflink=auto", "--sparse=always", in.Spec.Image.Disk, root); err != nil {
		return nil, err
	}
	drives := []drive{{id: "root", path: root}}
	for i, v := range in.Spec.Volumes {
		if v.Backing == volume.Tmpfs {
			continue
		}
		at, _, err := volume.GuestDisk(ctx, in.Host, in.Spec.Dir, v, false)
		if err != nil {
			return nil, fault.Op("volume "+v.Path, err)
		}
		drives = append(drives, drive{id: volumeID(i), path: at})
	}
	for i := range drives {
		// Firecracker derives the serial number from the file: its device, its
		// device number and its inode, the first 20 bytes.
		out, err := guest.Output(ctx, in.Host, "stat", "-L", "-c", "%d %r %i", drives[i].path)
		if err != nil {
			return nil, err
		}
		serial := strings.Join(strings.Fields(out), "")
		drives[i].serial = serial[:min(len(serial), 20)]
	}
	return drives, nil
}

// kernel writes the unpacked kernel and the initial RAM disk into the
// directory.
func (in *Instance) kernel(ctx context.Context, o options, drives []drive) error {
	file, modules := in.Spec.Image.Kernel, in.Spec.Image.Modules
	if o.kernel != "" {
		file, modules = o.kernel, o.modules
	}
	if err := guest.UnpackKernel(ctx, in.Host, file, path.Join(in.Spec.Dir, fileKernel)); err != nil {
		return err
	}
	wanted := append([]string{"virtio_mmio", "virtio_blk", "ext4", "vmw_vsock_virtio_transport"},
		guest.FileSystems(in.Spec)...)
	if in.Spec.Network != nil {
		wanted = append(wanted, "virtio_net")
	}
	// A volume in memory has no drive, and so no serial number.
	serials := make([]string, len(in.Spec.Volumes))
	for i := range serials {
		if d := slices.IndexFunc(drives, func(d drive) bool { return d.id == volumeID(i) }); d >= 0 {
			serials[i] = drives[d].serial
		}
	}
	return guest.Initramfs(ctx, in.Host, wire.InitramfsRequest{Kernel: file, Modules: modules, Wanted: wanted,
		Agent:  in.Spec.Agent,
		Config: guest.InitConfig(in.Spec, fmt.Sprintf("vsock:%d", agentPort), drives[0].serial, serials),
		Out:    path.Join(in.Spec.Dir, fileInitrd)})
}

func volumeID(i int) string { return "volume" + strconv.Itoa(i) }

// configure configures the machine through the API and starts it.
func (in *Instance) configure(ctx context.Context, o options, drives []drive) error {
	type step struct {
		at   string
		body map[string]any
	}
	args := strings.TrimSpace(kernelWords + " " + o.append)
	steps := []step{
		{"/machine-config", map[string]any{"vcpu_count": in.Spec.CPUs, "mem_size_mib": int64(in.Spec.Memory / unit.MiB),
			"smt": false}},
		{"/boot-source", map[string]any{"kernel_image_path": path.Join(in.Spec.Dir, fileKernel),
			"initrd_path": path.Join(in.Spec.Dir, fileInitrd), "boot_args": args}},
	}
	for _, d := range drives {
		steps = append(steps, step{"/drives/" + d.id, map[string]any{"drive_id": d.id, "path_on_host": d.path,
			"is_root_device": false,
			"is_read_only":   false, "cache_type": o.cache, "io_engine": o.engine}})
	}
	if n := in.Spec.Network; n != nil {
		steps = append(steps, step{"/network-interfaces/eth0", map[string]any{"iface_id": "eth0", "guest_mac": n.MAC,
			"host_dev_name": netns.Tap(in.Spec.Label)}})
	}
	steps = append(steps,
		step{"/vsock", map[string]any{"guest_cid": 3, "uds_path": path.Join(in.Spec.Dir, socketVsock)}},
		step{"/actions", map[string]any{"action_type": "InstanceStart"}})
	asked := time.Now()
	for _, s := range steps {
		asked = time.Now()
		if err := in.api.call(ctx, "PUT", s.at, s.body, nil); err != nil {
			return err
		}
	}
	in.Lacks("Firecracker has no firmware: it starts the kernel itself", bootmodel.MarkFirmware)
	for _, moment := range []string{bootmodel.MarkVCPU, bootmodel.MarkKernel} {
		in.Saw(moment, "Firecracker carried out InstanceStart", time.Since(asked))
	}
	return nil
}

func (in *Instance) describe(o options, version string) {
	f := in.Properties.Facts
	f["firecracker"], f["accelerator"] = safetext.Line(version), "kvm"
	f["kernel"], f["kernel.append"] = safetext.Line(in.Boot.Kernel), o.append
	f["root"], f["disk.cache"], f["disk.engine"] = "virtio-blk, a copy of the image", o.cache, o.engine
	for _, v := range in.Spec.Volumes {
		if v.Backing != volume.Tmpfs {
			in.Properties.HostCache[v.Path] = volume.CacheUsed + ": Firecracker does not open a drive with O_DIRECT"
		}
	}
}

// kernelWords is what bakeoff gives to every kernel.
const kernelWords = "console=ttyS0 reboot=k panic=-1 quiet loglevel=4 cryptomgr.notests"
