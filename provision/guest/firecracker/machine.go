// Package firecracker runs machines with Firecracker, with or without an environment.
// Firecracker is controlled over HTTP on a Unix socket.
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
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

// Program is the hypervisor.
const Program = "firecracker"

// The sockets in the folder of a machine: see guest.CheckSocketDir.
const (
	SocketAPI   = "a"
	SocketVsock = "v"
)

// MinMemory is the least memory of a guest.
const MinMemory = 96 * unit.MiB

// MaxCPUs is the number of processors that Firecracker gives to a guest at most.
const MaxCPUs = 32

// KernelWords is what bakeoff gives to every kernel: the guest ends Firecracker by a restart.
const KernelWords = "console=ttyS0 reboot=k panic=-1 quiet loglevel=4 cryptomgr.notests"

// apiTime bounds a call of the API, and the time until Firecracker answers it.
const (
	apiTime  = 15 * time.Second
	maxReply = 64 << 10
)

// API is Firecracker's API on its Unix socket.
type API struct {
	Host   conn.Conn
	Socket string
}

// Call sends body and decodes the answer into value, unless value is nil.
func (a API) Call(ctx context.Context, method, at string, body, value any) error {
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
			return a.Host.Dial(ctx, "unix", a.Socket)
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

// Pause stops the processors of the guest, or lets them run again.
func (a API) Pause(ctx context.Context, paused bool) error {
	state := "Resumed"
	if paused {
		state = "Paused"
	}
	return a.Call(ctx, "PATCH", "/vm", map[string]any{"state": state}, nil)
}

// PressCtrlAltDel presses these keys on the keyboard of the guest: its kernel restarts, or
// asks its init process to.
func (a API) PressCtrlAltDel(ctx context.Context) error {
	return a.Call(ctx, "PUT", "/actions", map[string]any{"action_type": "SendCtrlAltDel"}, nil)
}

// Drive is a disk of the guest in a raw file.
type Drive struct {
	ID, Path string
	ReadOnly bool
}

// Card is a network card of the guest at a tap device in the network namespace of Firecracker.
type Card struct{ ID, MAC, Tap string }

// Machine describes a guest.
type Machine struct {
	Label  string // Firecracker's name for the guest
	Dir    string // on the host; Firecracker makes its sockets there
	CPUs   int
	Memory unit.Bytes // whole MiB
	Kernel string     // an ELF file
	Initrd string
	Append string // words behind KernelWords
	Drives []Drive
	Cards  []Card
	// Cache and Engine are Firecracker's modes for drives.
	Cache, Engine string
	Vsock         bool // the guest has a socket to the host: SocketVsock in Dir
}

// AgentPort is the port of the guest's socket on which the agent answers.
const AgentPort = 1024

// DialAgent connects to the agent of the guest whose Firecracker has its sockets in dir: it
// writes CONNECT and the port, and Firecracker answers OK and another port when the agent
// listens.
func DialAgent(ctx context.Context, host conn.Conn, dir string) (io.ReadWriteCloser, error) {
	c, err := host.Dial(ctx, "unix", path.Join(dir, SocketVsock))
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(apiTime))
	r := bufio.NewReaderSize(c, 64)
	_, err = fmt.Fprintf(c, "CONNECT %d\n", AgentPort)
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

// API is that of the machine.
func (m *Machine) API(host conn.Conn) API { return API{host, path.Join(m.Dir, SocketAPI)} }

// CommandLine is the argument vector of Firecracker.
func (m *Machine) CommandLine(program string) []string {
	return []string{program, "--api-sock", path.Join(m.Dir, SocketAPI), "--id", m.Label}
}

// Start configures the machine through the API of p, which was started with CommandLine, and
// starts the guest. It returns the version of Firecracker, and how long the start took.
func (m *Machine) Start(ctx context.Context, host conn.Conn, p *guest.Process) (version string, took time.Duration,
	err error) {
	var info struct {
		Version string `json:"vmm_version"`
	}
	api := m.API(host)
	if err := p.Until(ctx, apiTime, func() error { return api.Call(ctx, "GET", "/", nil, &info) }); err != nil {
		return "", 0, err
	}
	asked := time.Now()
	for _, s := range m.steps() {
		asked = time.Now()
		if err := api.Call(ctx, "PUT", s.at, s.body, nil); err != nil {
			return "", 0, err
		}
	}
	return safetext.Line(info.Version), time.Since(asked), nil
}

// step is a call of the API.
type step struct {
	at   string
	body map[string]any
}

// steps configure the machine; the last one starts it.
func (m *Machine) steps() []step {
	boot := map[string]any{"kernel_image_path": m.Kernel, "boot_args": strings.TrimSpace(KernelWords + " " + m.Append)}
	if m.Initrd != "" {
		boot["initrd_path"] = m.Initrd
	}
	steps := []step{
		{"/machine-config", map[string]any{"vcpu_count": m.CPUs, "mem_size_mib": int64(m.Memory / unit.MiB), "smt": false}},
		{"/boot-source", boot},
	}
	for _, d := range m.Drives {
		steps = append(steps, step{"/drives/" + d.ID, map[string]any{"drive_id": d.ID, "path_on_host": d.Path,
			"is_root_device": false, "is_read_only": d.ReadOnly, "cache_type": m.Cache, "io_engine": m.Engine}})
	}
	for _, c := range m.Cards {
		steps = append(steps, step{"/network-interfaces/" + c.ID, map[string]any{"iface_id": c.ID, "guest_mac": c.MAC,
			"host_dev_name": c.Tap}})
	}
	if m.Vsock {
		steps = append(steps, step{"/vsock", map[string]any{"guest_cid": 3, "uds_path": path.Join(m.Dir, SocketVsock)}})
	}
	return append(steps, step{"/actions", map[string]any{"action_type": "InstanceStart"}})
}
