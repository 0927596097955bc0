//go:build linux || netbsd || freebsd

package guestinit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/wire"
)

// guestSystem is what init asks of the kernel of a guest whose kernel has
// mounted the root. NetBSD and FreeBSD implement it by system calls, so that the
// root needs no other program. On NetBSD it needs /dev/null, without which the
// agent ends before it can make devices.
type guestSystem interface {
	// Writable makes the root writable if it is not.
	Writable() error
	// Devices makes /dev have the devices that programs expect.
	Devices() error
	// Console makes the console standard input, output and error.
	Console() error
	// Tmpfs mounts an empty file system in memory; size 0 is the kernel's
	// default.
	Tmpfs(at string, size unit.Bytes, mode uint32) error
	// Interfaces lists the network interfaces.
	Interfaces() ([]net.Interface, error)
	// Address gives an interface an IPv4 address and brings it up.
	Address(name string, addr netip.Prefix) error
	// Hostname sets the host name.
	Hostname(name string) error
	// Setting returns the value of a sysctl, and Set changes it.
	Setting(name string) ([]byte, error)
	Set(name string, value []byte) error
	// Reboot writes all file systems to their disks and restarts the guest; QEMU
	// ends then, because it runs with -no-reboot. A guest without power
	// management cannot be switched off.
	Reboot() error
	// MakeDir creates a directory and its parents.
	MakeDir(path string) error
	// LinkAgent makes this program available at a path where nothing is.
	LinkAgent(path string) error
}

// guestInit is init on a system whose kernel mounts the root: it makes the root
// usable, and does what the configuration says.
type guestInit struct {
	name  string // of the system, as in GOOS
	sys   guestSystem
	dials net.Dialer
	wait  time.Duration // for an interface to appear
}

// begin makes the system usable before the configuration can be read.
func (g guestInit) begin() error {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"devices", g.sys.Devices}, {"console", g.sys.Console}, {"remount the root for writing", g.sys.Writable},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	for _, dir := range []string{wire.GuestScratch, "/tmp", "/var/tmp"} {
		if err := g.sys.MakeDir(dir); err != nil {
			return err
		}
	}
	// A root may have the agent as its init only; programs are started by the other path.
	if err := g.sys.LinkAgent(wire.GuestAgent); err != nil {
		return fmt.Errorf("link the agent: %w", err)
	}
	return nil
}

// settle does what a configuration says about volumes, network, settings and
// the host name.
func (g guestInit) settle(c wire.InitConfig) error {
	if lacks := wire.Lacks(g.name, c); len(lacks) > 0 {
		return fault.New(fault.Unsupported, "%s", strings.Join(lacks, "; "))
	}
	if c.Hostname != "" {
		if err := g.sys.Hostname(c.Hostname); err != nil {
			return fmt.Errorf("host name: %w", err)
		}
	}
	for _, v := range c.Volumes {
		err := g.sys.MakeDir(v.Path)
		if err == nil {
			err = g.sys.Tmpfs(v.Path, v.Size, 0o755)
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Path, err)
		}
	}
	if c.Network != nil {
		name, err := g.card(c.Network.MAC)
		if err != nil {
			return err
		}
		if err := g.sys.Address(name, c.Network.Addr); err != nil {
			return fmt.Errorf("interface %s: address %v: %w", name, c.Network.Addr, err)
		}
	}
	for _, s := range c.Sysctl {
		if err := g.set(s); err != nil {
			return fmt.Errorf("setting %s = %s: %w", s.Name, s.Value, err)
		}
	}
	return nil
}

// loopback brings the loopback interface up.
func (g guestInit) loopback() error {
	if err := g.sys.Address("lo0", netip.MustParsePrefix("127.0.0.1/8")); err != nil {
		return fmt.Errorf("interface lo0: %w", err)
	}
	return nil
}

// card waits for the network interface with a hardware address, or for the only
// one that has any, and returns its name.
func (g guestInit) card(mac string) (string, error) {
	var want net.HardwareAddr
	if mac != "" {
		var err error
		if want, err = net.ParseMAC(mac); err != nil {
			return "", err
		}
	}
	for end := time.Now().Add(g.wait); ; time.Sleep(time.Millisecond) {
		all, err := g.sys.Interfaces()
		if err != nil {
			return "", fmt.Errorf("network interfaces: %w", err)
		}
		var found []string
		for _, i := range all {
			if len(i.HardwareAddr) > 0 && (mac == "" || i.HardwareAddr.String() == want.String()) {
				found = append(found, i.Name)
			}
		}
		switch {
		case len(found) == 1 || len(found) > 1 && mac != "":
			return found[0], nil
		case len(found) > 1:
			return "", fault.New(fault.Invalid, "network: name the MAC address, because the guest has several interfaces: %s",
				strings.Join(found, " "))
		case time.Now().After(end):
			return "", fmt.Errorf("there is no network interface with the address %s", cmp.Or(mac, "of a card"))
		}
	}
}

// set changes a kernel setting. The size of its present value tells its type.
func (g guestInit) set(s wire.InitSetting) error {
	now, err := g.sys.Setting(s.Name)
	if err != nil {
		return err
	}
	value, err := encodeSetting(now, s.Value)
	if err != nil {
		return err
	}
	return g.sys.Set(s.Name, value)
}

// setupFunction is what a host calls as "setup" with a wire.InitConfig, of which the
// port is ignored: the driver knows the volumes, addresses and settings of an
// environment only when it creates it, and cannot write them into a file system that
// its host does not know.
func setupFunction(settle func(wire.InitConfig) error) serve.Function {
	return func(_ context.Context, params json.RawMessage) (any, error) {
		var c wire.InitConfig
		if err := json.Unmarshal(params, &c); err != nil {
			return nil, fault.New(fault.Invalid, "setup: %w", err)
		}
		if c.Schema != wire.InitSchema {
			return nil, fault.New(fault.Invalid, "setup: schema %q instead of %s", c.Schema, wire.InitSchema)
		}
		c.Port = ""
		return struct{}{}, settle(c)
	}
}

// functions are what a host can call.
func (g guestInit) functions() map[string]serve.Function {
	return map[string]serve.Function{
		"setup": setupFunction(g.settle),
		"poweroff": func(context.Context, json.RawMessage) (any, error) {
			go func() {
				time.Sleep(50 * time.Millisecond) // the answer goes out first
				if err := g.sys.Reboot(); err != nil {
					fmt.Fprintln(os.Stderr, "bakeoff-agent: power off:", err)
				}
			}()
			return struct{}{}, nil
		},
	}
}

// port returns the function that opens the port at an address of the
// configuration.
func (g guestInit) port(at string) (func() (io.ReadWriteCloser, error), error) {
	if address, ok := strings.CutPrefix(at, "dial:"); ok {
		network, address, err := serve.ParseDial(address)
		if err != nil {
			return nil, err
		}
		return func() (io.ReadWriteCloser, error) {
			c, err := g.dials.Dial(network, address)
			if err != nil {
				time.Sleep(100 * time.Millisecond) // a host that refuses does so at once
				return nil, err
			}
			return c, nil
		}, nil
	}
	open, err := serve.Opener(at)
	if err != nil {
		return nil, err
	}
	return func() (io.ReadWriteCloser, error) { return open(context.Background()) }, nil
}

// bringUp sets the guest up, and tells in how to open its port. path is the file
// with the configuration, reap starts the reaper.
func (g guestInit) bringUp(in *initProcess, path string, reap func() *reaper) error {
	if err := g.begin(); err != nil {
		return err
	}
	if err := in.readConfig(path); err != nil {
		return err
	}
	if in.config.Port == "" {
		return errors.New(path + ": port is required")
	}
	for name, value := range serve.Environ {
		os.Setenv(name, value)
	}
	in.reaper = reap()
	// The network comes first: the port may need it.
	err := errors.Join(g.loopback(), g.settle(in.config))
	open, portErr := g.port(in.config.Port)
	if portErr != nil {
		in.config.Port = "" // nobody can be told
	}
	in.open = open
	return errors.Join(err, portErr)
}
