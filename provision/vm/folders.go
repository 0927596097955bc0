package vm

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"bakeoff/base/fault"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/volume"
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

// noFolders says why a machine that starts from a service or an image has no folders of the host.
const noFolders = "the kernel of a machine that starts from a service or an image cannot mount folders of this machine"

// checkFolders refuses folders of a manifest that the guest cannot mount.
func (b Boot) checkFolders(m manifest.Guest) error {
	if !b.Agent || len(m.Filesystems) == 0 {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "filesystems: %s", noFolders), "remove it, or use brand docker")
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
	Command string `json:"command"` // in the guest
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
		return nil, fault.WithFix(fault.New(fault.Unsupported, "filesystems: guest %s has no IPv4 address in the network of "+
			"its primary NIC, at which a server of NFS could serve it", g.name()),
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
