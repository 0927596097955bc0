// Package vmmtest is a double of Firecracker for tests. It answers the API as Firecracker's
// description says, and executes no guest.
package vmmtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"bakeoff/provision/driver/fake"
)

// VMM is one process of the double.
type VMM struct {
	// What the arguments and the API have set: paths, identifiers of drives, and "ID MAC TAP"
	// of each card. Netns is the network namespace that the process runs in.
	ID, Netns, Kernel, Initrd, Args, Vsock string
	CPUs, Memory                           int // in MiB
	Disks, Drives, Taps                    []string
	// Ended is called after the guest has ended; nil calls nothing.
	Ended func()

	call      *fake.Call
	boot      func(*VMM) error
	mu        sync.Mutex
	state     string
	restarted chan struct{} // closed when the guest has restarted
}

// New is a process that c started in a network namespace. It does nothing yet.
func New(c *fake.Call, netns string) *VMM {
	return &VMM{Netns: netns, call: c, state: "Not started", restarted: make(chan struct{})}
}

// Run is the program. boot starts the guest.
func Run(c *fake.Call, netns string, boot func(*VMM) error) int {
	if slices.Equal(c.Argv[1:], []string{"--version"}) {
		c.Printf("Firecracker v1.10.1\n")
		return 0
	}
	a := c.Argv[1:]
	if len(a) != 4 || a[0] != "--api-sock" || a[2] != "--id" || len(a[3]) > 64 || strings.ContainsAny(a[3], "_/.") {
		return c.Failf("Arguments parsing error: %q", a)
	}
	v := New(c, netns)
	v.ID, v.boot = a[3], boot
	l, err := net.Listen("unix", a[1])
	if err != nil {
		return c.Failf("Failed to open the API socket: %v", err)
	}
	ctx, stop := context.WithCancel(c.Ctx)
	defer stop()
	server := &http.Server{Handler: v, BaseContext: func(net.Listener) context.Context { return ctx }}
	go server.Serve(l)
	select {
	case <-c.Ctx.Done():
	case <-v.restarted:
	}
	server.Close()
	if v.Ended != nil {
		v.Ended()
	}
	return 0
}

// ServeHTTP answers the API as its description has it: unknown fields are
// refused, and so is configuration after the start.
func (v *VMM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err := v.do(r.Method, r.URL.Path, body, w); err != nil {
		w.WriteHeader(400)
		json.NewEncoder(w).Encode(map[string]string{"fault_message": err.Error()})
	}
}

func strict(body []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func (v *VMM) do(method, at string, body []byte, w http.ResponseWriter) error {
	kind, name, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	switch {
	case method == "GET" && at == "/":
		return json.NewEncoder(w).Encode(map[string]string{"id": v.ID, "state": v.state, "vmm_version": "1.10.1",
			"app_name": "Firecracker"})
	case method == "PATCH" && at == "/vm":
		return v.patch(body, w)
	case method != "PUT":
		return fmt.Errorf("invalid request method and/or path: %s %s", method, at)
	case v.state != "Not started" && kind != "actions":
		return fmt.Errorf("the requested operation is not supported after starting the microVM")
	}
	var err error
	switch kind {
	case "machine-config":
		var q struct {
			VCPUs  int  `json:"vcpu_count"`
			Memory int  `json:"mem_size_mib"`
			SMT    bool `json:"smt"`
		}
		if err = strict(body, &q); err == nil && (q.VCPUs < 1 || q.VCPUs > 32 || q.Memory < 1) {
			err = fmt.Errorf("the machine config is invalid: %+v", q)
		}
		v.CPUs, v.Memory = q.VCPUs, q.Memory
	case "boot-source":
		var q struct {
			Kernel string `json:"kernel_image_path"`
			Initrd string `json:"initrd_path"`
			Args   string `json:"boot_args"`
		}
		if err = strict(body, &q); err == nil {
			text, kerr := os.ReadFile(q.Kernel)
			if q.Initrd != "" {
				_, ierr := os.Stat(q.Initrd)
				kerr = errors.Join(kerr, ierr)
			}
			if kerr != nil || !strings.HasPrefix(string(text), "\x7fELF") {
				err = fmt.Errorf("the kernel file cannot be opened: %v", kerr)
			}
			v.Kernel, v.Initrd, v.Args = q.Kernel, q.Initrd, q.Args
		}
	case "drives":
		err = v.drive(name, body)
	case "network-interfaces":
		var q struct {
			ID  string `json:"iface_id"`
			MAC string `json:"guest_mac"`
			Dev string `json:"host_dev_name"`
		}
		if err = strict(body, &q); err == nil && q.ID != name {
			err = fmt.Errorf("the id from the path does not match that of the body")
		}
		if err == nil {
			err = v.Card(q.ID, q.MAC, q.Dev)
		}
	case "vsock":
		var q struct {
			CID  int    `json:"guest_cid"`
			Path string `json:"uds_path"`
		}
		if err = strict(body, &q); err == nil && q.CID < 3 {
			err = fmt.Errorf("guest_cid %d is reserved", q.CID)
		}
		v.Vsock = q.Path
	case "actions":
		var q struct {
			Action string `json:"action_type"`
		}
		if err = strict(body, &q); err == nil {
			err = v.start(q.Action)
		}
	default:
		err = fmt.Errorf("invalid request method and/or path: %s", at)
	}
	if err == nil {
		w.WriteHeader(204)
	}
	return err
}

// Card opens a tap, which is where the process runs, and no other has it.
func (v *VMM) Card(id, mac, dev string) error {
	if _, err := net.ParseMAC(mac); err != nil {
		return err
	}
	if v.Netns == "" || fake.Here(v.call.Ctx, "ip", "-n", v.Netns, "link", "show", dev) != nil {
		return fmt.Errorf("could not create the network device: open tap device failed: %s: no such device", dev)
	}
	if slices.ContainsFunc(v.Taps, func(t string) bool { return strings.HasSuffix(t, " "+dev) }) {
		return fmt.Errorf("open tap device failed: %s: Resource busy", dev)
	}
	v.Taps = append(v.Taps, id+" "+mac+" "+dev)
	return nil
}

func (v *VMM) drive(name string, body []byte) error {
	var q struct {
		ID       string `json:"drive_id"`
		Path     string `json:"path_on_host"`
		Root     bool   `json:"is_root_device"`
		ReadOnly bool   `json:"is_read_only"`
		Cache    string `json:"cache_type"`
		Engine   string `json:"io_engine"`
	}
	if err := strict(body, &q); err != nil {
		return err
	}
	if _, err := os.Stat(q.Path); err != nil || q.ID != name ||
		!slices.Contains([]string{"Unsafe", "Writeback"}, q.Cache) || !slices.Contains([]string{"Sync", "Async"}, q.Engine) {
		return fmt.Errorf("unable to create the block device %q: %v", q.ID, err)
	}
	v.Disks, v.Drives = append(v.Disks, q.Path), append(v.Drives, q.ID)
	return nil
}

func (v *VMM) start(action string) error {
	switch {
	case action == "SendCtrlAltDel" && v.state == "Running":
		v.state = "ended"
		close(v.restarted)
		return nil
	case action != "InstanceStart" || v.state != "Not started" || v.Kernel == "":
		return fmt.Errorf("cannot start microvm without kernel configuration: %s", action)
	}
	if err := v.boot(v); err != nil {
		return err
	}
	v.state = "Running"
	return nil
}

func (v *VMM) patch(body []byte, w http.ResponseWriter) error {
	var q struct{ State string }
	if err := strict(body, &q); err != nil {
		return err
	}
	if v.state == "Not started" || q.State != "Paused" && q.State != "Resumed" {
		return fmt.Errorf("the microVM cannot be %s", q.State)
	}
	v.state = map[string]string{"Paused": "Paused", "Resumed": "Running"}[q.State]
	w.WriteHeader(204)
	return nil
}

// Greet answers on the socket of a guest as Firecracker does when the agent listens.
func Greet(c net.Conn, r *bufio.Reader) error {
	var port int
	if _, err := fmt.Fscanf(r, "CONNECT %d\n", &port); err != nil || port != 1024 {
		return fmt.Errorf("port %d: %v", port, err)
	}
	_, err := fmt.Fprintf(c, "OK 1073741824\n")
	return err
}

// Restart ends the process, as a guest does that restarts.
func (v *VMM) Restart() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state != "ended" {
		v.state = "ended"
		close(v.restarted)
	}
}
