package vm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// fitFolders checks how a machine reaches the folders of the host in its manifest.
func fitFolders(g manifest.Guest, tags Tags, add func(path string, value any, reason, allowed string)) {
	if !g.Brand.Machine() {
		return
	}
	for i, f := range g.Filesystems {
		path := "filesystems." + strconv.Itoa(i) + ".type"
		if g.Driver == manifest.Firecracker {
			add(path, f.Type, "guests of Firecracker share no folders of this machine", "remove it, or use driver qemu")
		}
		if f.Type != manifest.NFS || g.Driver == manifest.Firecracker {
			continue
		}
		primary := slices.IndexFunc(g.NICs, func(n manifest.NIC) bool { return n.Primary })
		switch {
		case primary < 0:
			add(path, f.Type, "a guest without a NIC reaches no server", "add a NIC in a network, or use 9p")
		case tags(g.NICs[primary].NicTag) == nil || !tags(g.NICs[primary].NicTag).Gateway().IsValid() ||
			g.NICs[primary].VLAN != 0:
			add(path, f.Type, "the server listens at the address of this machine in the network of the primary NIC, which "+
				"has none", "create the network with --subnet, name it in nic_tag without vlan_id, or use 9p")
		}
	}
}

// checkFolders refuses folders that a machine of a service or an image cannot mount: its init process
// mounts those of virtiofs, and the kernel has no other type.
func (b Boot) checkFolders(m manifest.Guest) error {
	if !b.Agent {
		return nil
	}
	all := slices.Clone(b.Shares)
	for i, f := range m.Filesystems {
		if f.Type == manifest.NFS {
			return fault.WithFix(fault.New(fault.Unsupported, "filesystems.%d.type: the kernel of a service has no NFS", i),
				"use 9p: bakeoff then mounts the folder by virtiofs")
		}
		all = append(all, Share{From: f.Source, To: f.Target})
	}
	if len(all) == 0 {
		return nil
	}
	if len(all) > qemu.MaxShares {
		return fault.New(fault.Unsupported, "the guest has %d folders of this machine; a service has at most %d", len(all),
			qemu.MaxShares)
	}
	words := 0
	for _, s := range all {
		if strings.ContainsAny(s.From, `,\`) {
			return fault.WithFix(fault.New(fault.Unsupported, "virtiofsd cannot serve %q: the path has a comma or a backslash",
				s.From), "rename the folder")
		}
		words += len(shareWord("share0", s.To, true))
	}
	if words > maxWords {
		return fault.WithFix(fault.New(fault.Unsupported, "the folders need %d characters of the kernel's command line; "+
			"bakeoff writes at most %d", words, maxWords), "use shorter paths in the guest")
	}
	_, err := findVirtiofsd()
	return err
}

// maxWords bounds the words for shared folders. The kernel's command line has 2,048 characters.
const maxWords = 1024

// shareWord asks the init process of a service to mount a folder.
func shareWord(tag, target string, readOnly bool) string {
	word := " bakeoff.share=" + tag + ":" + url.QueryEscape(target)
	if readOnly {
		word += ":ro"
	}
	return word
}

// findVirtiofsd finds the daemon that serves folders by virtiofs. Distributions do not put it into
// PATH.
func findVirtiofsd() (string, error) {
	for _, name := range []string{"virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd",
		"/usr/lib/qemu/virtiofsd"} {
		if file, err := findProgram(name); err == nil {
			return file, nil
		}
	}
	return "", fault.WithFix(fault.New(fault.Unsupported, "virtiofsd, which serves folders to machines of services, is "+
		"not installed"), "apt-get install virtiofsd, or qemu-system-common on Debian 12")
}

// readOnlyStart starts a program that sees a folder ($1) read-only.
const readOnlyStart = `mount --bind -- "$1" "$1" && mount -o remount,bind,ro -- "$1" && shift && exec "$@"`

// virtiofs starts the daemons of the folders of a machine of a service, and returns the words with
// which its init process mounts them. The daemons end with QEMU.
func (v *supervisor) virtiofs(ctx context.Context, m *qemu.Machine) (words string, err error) {
	if !v.boot.Agent || len(m.Shares) == 0 {
		return "", nil
	}
	program, err := findVirtiofsd()
	if err != nil {
		return "", err
	}
	mounts, err := v.g.Mounts()
	if err != nil {
		return "", err
	}
	for i := range m.Shares {
		s := &m.Shares[i]
		s.Socket = v.g.Path(qemu.SocketShare(i))
		if err := os.RemoveAll(s.Socket); err != nil {
			return "", err
		}
		argv := []string{program, "--socket-path=" + s.Socket, "-o", "source=" + s.Path}
		if s.ReadOnly {
			argv = append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", readOnlyStart, "sh", s.Path},
				argv...)
		}
		p := guest.StartProcess(ctx, v.g.store.Host, "virtiofsd of "+s.Path, conn.Cmd{Argv: argv}, nil)
		v.daemons = append(v.daemons, p)
		if err := p.Until(ctx, daemonTime, func() error { _, err := os.Stat(s.Socket); return err }); err != nil {
			return "", err
		}
		words += shareWord(s.Tag, mounts[i].Target, s.ReadOnly)
	}
	return words, nil
}

// daemonTime bounds the start of a daemon.
const daemonTime = 10 * time.Second

// watchDaemons ends the machine if a daemon of its folders fails: programs of the guest would wait
// for their files without end.
func (m *machine) watchDaemons(ctx context.Context) {
	for _, p := range m.v.daemons {
		go func() {
			<-p.Ended()
			if p.Failure() != nil {
				_ = m.Guest.Kill(ctx) // result says why
			}
		}()
	}
}

// failedDaemon is why a daemon of the folders has failed; nil if none has.
func (m *machine) failedDaemon() error {
	for _, p := range m.v.daemons {
		if err := p.Failure(); err != nil {
			return err
		}
	}
	return nil
}

// endDaemons ends the daemons of the folders.
func (v *supervisor) endDaemons(ctx context.Context) error {
	var errs []error
	for _, p := range v.daemons {
		errs = append(errs, p.End(ctx))
	}
	v.daemons = nil
	return errors.Join(append(errs, v.g.removeLocks())...)
}

// removeLocks removes the files that ended daemons of the folders leave outside the guest's folder.
// Only virtiofsd of QEMU has them.
func (g *Guest) removeLocks() error {
	var errs []error
	for i := range qemu.MaxShares {
		name := strings.ReplaceAll(g.Path(qemu.SocketShare(i)), "/", ".") + ".pid"
		errs = append(errs, os.RemoveAll(filepath.Join("/var/run/virtiofsd", name)))
	}
	return errors.Join(errs...)
}

// shared are the folders that the guest mounts by 9p: those of the command line, and those of its
// manifest.
func (g *Guest) shared(b Boot) (out []qemu.Share) {
	all := slices.Clone(b.Shares)
	for _, f := range g.Filesystems {
		if f.Type == manifest.Plan9 {
			all = append(all, Share{From: f.Source, ReadOnly: slices.Contains(f.Options, "ro")})
		}
	}
	for i, s := range all {
		out = append(out, qemu.Share{Tag: "share" + strconv.Itoa(i), Path: s.From, ReadOnly: s.ReadOnly})
	}
	return out
}

// Mount says how a machine mounts a folder of the host.
type Mount struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Type    string `json:"type"`
	Command string `json:"command,omitempty"` // in the guest; "" is mounted already
}

// Mounts are the folders of the host that a machine can mount.
func (g *Guest) Mounts() (out []Mount, err error) {
	var b Boot
	if err := readJSON(g.Path(fileBoot), &b); err != nil {
		return nil, err
	}
	plan9 := func(source, target string) {
		out = append(out, Mount{source, target, manifest.Plan9,
			fmt.Sprintf("mount -t 9p -o trans=virtio,version=9p2000.L share%d %s", len(out), target)})
	}
	for _, s := range b.Shares {
		plan9(s.From, s.To)
	}
	for _, f := range g.Filesystems {
		if f.Type == manifest.Plan9 {
			plan9(f.Source, f.Target)
		}
	}
	if b.Agent {
		for i := range out {
			out[i].Type, out[i].Command = "virtiofs", "" // its init process mounts it
		}
	}
	server, err := g.server()
	if server == nil || err != nil {
		return out, err
	}
	for _, f := range g.Filesystems {
		if f.Type == manifest.NFS {
			out = append(out, Mount{f.Source, f.Target, f.Type,
				fmt.Sprintf("mount -t nfs4 -o vers=4.2,proto=tcp,port=%d %s:%s %s", server.Addr.Port(), server.Addr.Addr(),
					f.Target, f.Target)})
		}
	}
	return out, nil
}

// server is where the server of the folders of the guest listens; nil if it has no such folders.
func (g *Guest) server() (*volume.Server, error) {
	if !slices.ContainsFunc(g.Filesystems, func(f manifest.Filesystem) bool { return f.Type == manifest.NFS }) {
		return nil, nil
	}
	all, err := g.connections()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(c connection) bool { return c.nic.Primary })
	var client netip.Addr
	if i >= 0 {
		client = all[i].AddressOf(all[i].member)
	}
	if !client.Is4() || !all[i].Gateway().IsValid() {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "filesystems: guest %s has no IPv4 address in the "+
			"network of its primary NIC, so it cannot reach an NFS server", g.name()),
			"give the NIC an address in the subnet of its network, or use 9p")
	}
	at := []volume.Volume{{Backing: volume.NFS}}
	volume.Place(at, all[i].Namespace(), all[i].Gateway(), client)
	return at[0].Server, nil
}

// serveFolders starts the server of the folders of the guest, if it has some, unless it runs.
func (v *supervisor) serveFolders(ctx context.Context) error {
	s, err := v.g.server()
	if s == nil || err != nil {
		return err
	}
	var all []volume.Folder
	for _, f := range v.g.Filesystems {
		if f.Type == manifest.NFS {
			all = append(all, volume.Folder{Path: f.Source, At: f.Target, Client: s.Client,
				ReadOnly: slices.Contains(f.Options, "ro")})
		}
	}
	return fault.Op("serve folders by NFS", volume.ServeFolders(ctx, v.g.store.Host, v.g.Path(""), *s, all))
}

// ConsoleSockets are the sockets of the further consoles of a machine, in their order.
func (g *Guest) ConsoleSockets() []string {
	out := []string{}
	for n := 1; n <= g.Consoles; n++ {
		out = append(out, g.Path(qemu.SocketFurther(n)))
	}
	return out
}
