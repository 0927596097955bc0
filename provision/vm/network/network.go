// Package network keeps networks of guests. A network is a bridge in a network namespace of its
// own, so that the guests in it reach each other, and nothing else unless it is asked for: an
// uplink, or NAT. On FreeBSD, which has no such namespaces, the packet filter pf does that.
//
// A network is a file in the state folder with a lease, and outlives the namespace: a guest
// that starts makes the namespace again after a restart of the machine. dnsmasq gives guests
// their addresses and names.
package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/lease"
	"bakeoff/provision/netns"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// Store is where the networks of this machine are.
type Store struct {
	State string // the state folder
	Host  conn.Conn
	At    lease.Machine // Host, for leases
	// System is that of Host, as GOOS names it; "" is that of this program.
	System string
}

// freebsd reports whether networks are bridges of FreeBSD.
func (s *Store) freebsd() bool { return cmp.Or(s.System, runtime.GOOS) == "freebsd" }

// Network is a network of guests.
type Network struct {
	manifest.Network
	ID string `json:"id"`
	// Link has the addresses of the link to this machine that NAT uses: the first one is that of
	// this machine.
	Link netip.Prefix `json:"link,omitzero"`
	// Forwarding is the kernel's setting of the uplink before the network was created.
	Forwarding string `json:"forwarding,omitzero"`
	// Reserved are the addresses of NICs that ask for one, by MAC address.
	Reserved map[string]netip.Addr `json:"reserved,omitempty"`

	store *Store
}

// Programs are those that networks need, with their Debian packages.
var Programs = map[string]string{"ip": "iproute2", "bridge": "iproute2", "nft": "nftables", "dnsmasq": "dnsmasq-base",
	"nsenter": "util-linux"}

// Check returns nil if this machine can have networks of guests, otherwise an error of kind
// fault.Unsupported.
func Check(ctx context.Context, host conn.Conn) error {
	for name, pkg := range Programs {
		if _, err := exec.LookPath(name); err != nil {
			return fault.WithFix(fault.New(fault.Unsupported, "networks of guests need %s", name), "apt-get install "+pkg)
		}
	}
	return netns.Check(ctx, host)
}

func (s *Store) dir() string           { return filepath.Join(s.State, "network") }
func (s *Store) file(id string) string { return filepath.Join(s.dir(), id+".json") }
func (s *Store) leases() lease.Folder  { return lease.Folder{At: s.At, State: s.State, Local: true} }
func labelOf(id string) string         { return labelPrefix + id }
func namespaceOf(id string) string     { return "bo-n" + id }
func (n *Network) within() conn.Conn   { return netns.Within(n.store.Host, n.Namespace()) }
func (n *Network) ip(ctx context.Context, commands ...string) error {
	return netns.IP(ctx, n.store.Host, n.Namespace(), commands...)
}

// Namespace is the network namespace with the bridge. FreeBSD has none: the bridge itself.
func (n *Network) Namespace() string {
	if n.store.freebsd() {
		return n.hostLink()
	}
	return namespaceOf(n.ID)
}

// exists reports whether the namespace with the bridge exists.
func (n *Network) exists(ctx context.Context) (bool, error) {
	if n.store.freebsd() {
		return n.hasInterface(ctx, n.hostLink())
	}
	return netns.Exists(ctx, n.store.Host, n.Namespace())
}

const labelPrefix = "network-"

// idOf is the identity of a network on this machine: state folders can have networks with
// the same name.
func (s *Store) idOf(name string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s", filepath.Clean(s.State), name)
	return fmt.Sprintf("%012x", h.Sum64()&(1<<48-1))
}

// locked calls do while no other process changes networks.
func (s *Store) locked(ctx context.Context, do func() error) error {
	if err := os.MkdirAll(s.dir(), 0o755); err != nil {
		return fault.Op("networks", err)
	}
	held, err := lock.Wait(ctx, filepath.Join(s.dir(), "lock"))
	if err != nil {
		return fault.Op("networks", err)
	}
	defer held.Release()
	return do()
}

// List returns all networks, in the order of their names.
func (s *Store) List() ([]*Network, error) {
	entries, err := os.ReadDir(s.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("networks", err)
	}
	var out []*Network
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		n, err := s.read(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *Network) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Find returns the network with a name. If there is none, the error is of kind fault.NotFound.
func (s *Store) Find(name string) (*Network, error) {
	n, err := s.read(s.idOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.WithFix(fault.New(fault.NotFound, "there is no network %q", name),
			"run `bakeoff vm network create "+name+" --subnet 10.0.0.0/24`")
	}
	return n, err
}

// maxFile bounds the file of a network, in bytes.
const maxFile = 4 << 20

func (s *Store) read(id string) (*Network, error) {
	b, err := os.ReadFile(s.file(id))
	if err != nil {
		return nil, err
	}
	n := &Network{}
	if len(b) > maxFile {
		return nil, fault.New(fault.Lab, "%s has more than %d bytes", s.file(id), maxFile)
	}
	if err := decode(b, n); err != nil {
		return nil, fault.Wrap(fault.Lab, s.file(id), err)
	}
	if n.ID != id || s.idOf(n.Name) != id {
		return nil, fault.New(fault.Lab, "%s describes another network (%q)", s.file(id), n.Name)
	}
	n.store = s
	return n, nil
}

// decode reads the file of a network, and checks what becomes a part of a command.
func decode(b []byte, n *Network) error {
	if err := json.Unmarshal(b, n); err != nil {
		return err
	}
	if n.Forwarding != "" && n.Forwarding != "0" && n.Forwarding != "1" {
		return fmt.Errorf("forwarding is %q", n.Forwarding)
	}
	return manifest.CheckNetwork(&n.Network)
}

func (n *Network) write() error {
	b, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(n.store.file(n.ID), append(b, '\n'), 0o644)
}

// Create makes a network. If it fails, nothing of it is left.
func (s *Store) Create(ctx context.Context, d manifest.Network) (*Network, error) {
	d.Subnets = slices.Clone(d.Subnets)
	if err := manifest.CheckNetwork(&d); err != nil {
		return nil, err
	}
	check := Check
	if s.freebsd() {
		check = func(ctx context.Context, host conn.Conn) error { return checkFreeBSD(ctx, host, d.NAT) }
	}
	if err := check(ctx, s.Host); err != nil {
		return nil, err
	}
	n := &Network{Network: d, ID: s.idOf(d.Name), store: s}
	err := s.locked(ctx, func() error {
		if err := s.sweep(ctx); err != nil {
			return err
		}
		if _, err := os.Stat(s.file(n.ID)); err == nil {
			return fault.WithFix(fault.New(fault.Invalid, "network %s exists", n.Name),
				"choose another name, or run `bakeoff vm network delete "+n.Name+"`")
		}
		if err := n.prepareUplink(ctx); err != nil {
			return err
		}
		err := s.leases().Write(ctx, lease.Lease{Lifetime: lease.Kept, Label: labelOf(n.ID), Name: n.Name,
			Owner: "guests in network " + n.Name, Network: n.Namespace(), PID: os.Getpid(), Started: time.Now().UTC()})
		if err == nil {
			err = n.write()
		}
		if err == nil {
			err = n.up(ctx)
		}
		if err != nil {
			err = errors.Join(err, n.remove(context.WithoutCancel(ctx)))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Delete removes a network. members are the names of the guests that have a NIC in it.
func (n *Network) Delete(ctx context.Context, members func() ([]string, error)) error {
	return n.store.locked(ctx, func() error {
		names, err := members()
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return fault.WithFix(fault.New(fault.Invalid, "network %s is in use by %s", n.Name, strings.Join(names, ", ")),
				"delete these guests, or remove their NICs in it (remove_nics)")
		}
		return n.remove(ctx)
	})
}

// remove removes everything of a network, and its file and its lease last. What does not
// exist is not an error.
func (n *Network) remove(ctx context.Context) error {
	if err := n.down(ctx); err != nil {
		return err
	}
	if err := os.Remove(n.store.file(n.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return n.store.leases().Remove(ctx, lease.Lease{Label: labelOf(n.ID)})
}

// sweep removes what killed commands left: networks with a lease and without a file. Its caller
// holds the lock.
func (s *Store) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(s.leases().Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		id, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".json"), labelPrefix)
		if !ok {
			continue
		}
		if _, serr := os.Stat(s.file(id)); errors.Is(serr, fs.ErrNotExist) {
			err = errors.Join(err, (&Network{ID: id, store: s}).remove(ctx))
		}
	}
	return err
}

// Sweep removes what killed commands left.
func (s *Store) Sweep(ctx context.Context) error {
	return s.locked(ctx, func() error { return s.sweep(ctx) })
}

// subnet is the network of IPv4, or of IPv6, with the address of the bridge.
func (n *Network) subnet(six bool) netip.Prefix {
	for _, text := range n.Subnets {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is6() == six {
			return p
		}
	}
	return netip.Prefix{}
}

// Subnet4 is the network of IPv4 with the address of this machine; invalid without one.
func (n *Network) Subnet4() netip.Prefix { return n.subnet(false) }

// Gateway is the address of this machine in the network; invalid without one.
func (n *Network) Gateway() netip.Addr { return n.subnet(false).Addr() }

// Prefix6 is the network of IPv6 in which guests make their own addresses; invalid without one.
func (n *Network) Prefix6() netip.Prefix {
	if p := n.subnet(true); p.IsValid() && p.Bits() == 64 {
		return p.Masked()
	}
	return netip.Prefix{}
}

// State is "up" if the namespace exists, otherwise "down": a guest that starts makes it.
func (n *Network) State(ctx context.Context) (string, error) {
	have, err := n.exists(ctx)
	if have {
		return "up", err
	}
	return "down", err
}
