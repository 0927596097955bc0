package bhyvetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"bakeoff/base/unit"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/guest/bhyve"
)

// Machine is one process of bhyve.
type Machine struct {
	Name, CPUs, Memory string
	// Devices are those of the PCI bus except the bridges, without their slots.
	Devices []string
	// Config is what the file of -k sets.
	Config map[string]string
	// Variables is the file with those of the firmware; "" is none.
	Variables string
	// Interrupts counts those that cannot be masked.
	Interrupts atomic.Int32

	disks  []string
	socket string
	rom    bool
	end    chan int
}

// End ends the guest, so that bhyve ends with this exit code.
func (m *Machine) End(code int) {
	select {
	case m.end <- code:
	default: // it ends already
	}
}

func (m *Machine) interrupted() { m.Interrupts.Add(1) }

// run is bhyve: it goes on as long as the guest does.
func (h *Host) run(c *fake.Call) int {
	p, err := read(c)
	if err != nil {
		c.Failf("%v", err)
		return bhyve.Failed
	}
	m := State{VMs: map[string]*VM{}, Taps: map[string]string{}}
	disk := ""
	serr := c.Host.State(&m, func() bool {
		v := m.VMs[p.Name]
		if v == nil && p.rom {
			v = &VM{Loaded: true, Label: labelOf(p.Name)}
			m.VMs[p.Name] = v
		}
		if err = p.check(h, &m); err == nil && (v == nil || !v.Loaded || v.Running) {
			err = fmt.Errorf("vm_open: %s: no machine that can run", p.Name)
		}
		if err == nil {
			v.Running = true
			if len(p.disks) > 0 {
				disk = m.content(c.Host, p.disks[0])
			}
		}
		return err == nil
	})
	root := ""
	if err == nil && serr == nil {
		// Firmware that finds no boot loader waits at its prompt.
		if root, err = c.Host.Install(disk, p.Name); p.rom {
			err = nil
		}
	}
	if err != nil || serr != nil {
		c.Failf("the machine %s cannot run: %v %v", p.Name, err, serr)
		return bhyve.Failed
	}
	h.add(p)
	defer h.drop(p)
	return p.live(c, h, root)
}

func (m *Machine) live(c *fake.Call, h *Host, root string) int {
	ctx, cancel := context.WithCancel(c.Ctx)
	defer cancel()
	served := make(chan struct{})
	serve := func() { waitAt(ctx, c, m.socket) }
	if root != "" {
		serve = func() {
			c.Serve(ctx, m.socket, fake.Place{Label: labelOf(m.Name), Root: root, CPUSet: []int{0},
				Memory: 128 * unit.MiB}, nil)
		}
	}
	go func() {
		defer close(served)
		serve()
	}()
	c.Printf("the guest runs\n")
	if c.Stdin != nil {
		go func() {
			for in := bufio.NewScanner(c.Stdin); in.Scan(); {
				c.Printf("the guest reads %s\n", in.Text())
			}
		}()
	}
	if h.Starts != nil {
		h.Starts(m)
	}
	code := 0
	select {
	case code = <-m.end:
	case <-c.Ctx.Done():
	}
	cancel()
	<-served
	return code
}

// waitAt is a port that no agent serves. Like those of bhyve, its socket stays.
func waitAt(ctx context.Context, c *fake.Call, socket string) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		c.Failf("virtio-console: %v", err)
		return
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
	}
}

// read reads the arguments.
func read(c *fake.Call) (*Machine, error) {
	flags, rest, err := fake.Options(c.Argv[1:], "AaCDeHhPSuWwxYc:f:g:G:k:K:l:m:n:o:p:r:s:U:")
	if err != nil || len(rest) != 1 {
		return nil, fmt.Errorf("usage: %v", err)
	}
	m := &Machine{Name: rest[0], CPUs: fake.Last(flags['c']), Memory: fake.Last(flags['m']), end: make(chan int, 1)}
	for _, l := range flags['l'] {
		switch device, conf, _ := strings.Cut(l, ","); {
		case device == "com1" && conf == "stdio", device == "com2" && strings.HasSuffix(conf, "A"):
		case device == "bootrom" && strings.HasPrefix(conf, "/"):
			m.rom = true
			if _, m.Variables, _ = strings.Cut(conf, ","); m.Variables != "" {
				if _, err := os.Stat(m.Variables); err != nil {
					return nil, fmt.Errorf("error opening varfile: %w", err)
				}
			}
		default:
			return nil, fmt.Errorf("invalid lpc device configuration '%s'", l)
		}
	}
	if file := fake.Last(flags['k']); file != "" {
		if m.Config, err = lines(file); err != nil {
			return nil, err
		}
	}
	var slots []string
	for _, s := range flags['s'] {
		slot, device, _ := strings.Cut(s, ",")
		if slices.Contains(slots, slot) || m.Config["pci.0."+strings.Replace(slot, ":", ".", 1)+".device"] != "" {
			return nil, fmt.Errorf("pci slot %s already occupied", slot)
		}
		slots = append(slots, slot)
		if device != "hostbridge" && device != "lpc" {
			m.Devices = append(m.Devices, device)
		}
	}
	return m, nil
}

// options are those of a device, of which only some exist.
func options(text string, known ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, o := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(o, "=")
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("invalid option %q", o)
		}
		out[name] = value
	}
	return out, nil
}

// check refuses devices that do not exist.
func (m *Machine) check(h *Host, s *State) error {
	for _, d := range m.Devices {
		kind, conf, _ := strings.Cut(d, ",")
		what, more, _ := strings.Cut(conf, ",")
		var err error
		var o map[string]string
		switch kind {
		case "xhci":
			_, err = options(conf, "tablet")
		case "virtio-net", "e1000":
			o, err = options(more, "type", "mac", "mtu", "hostfwd")
			_, tap := s.Taps[what]
			tap = tap || h.HasTap != nil && h.HasTap(what)
			isTap := o["type"] == "tap" || strings.HasPrefix(what, "tap")
			if err == nil && what != "slirp" && (!isTap || !tap) {
				err = fmt.Errorf("no backend %q", what)
			}
		case "virtio-blk", "nvme", "ahci-hd", "ahci-cd":
			if _, err = options(more, "ro"); err == nil {
				err = s.exists(what)
			}
			if kind != "ahci-cd" {
				m.disks = append(m.disks, what)
			}
		case "virtio-9p":
			_, err = options(more, "ro")
		case "virtio-console":
			_, m.socket, _ = strings.Cut(conf, "=")
		default:
			err = fmt.Errorf("unknown device")
		}
		if err != nil {
			return fmt.Errorf("device emulation %q: %w", d, err)
		}
	}
	return nil
}
