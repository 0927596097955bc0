package vm

import (
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"strings"

	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// maxKeys bounds a file with public keys, in bytes.
const maxKeys = 64 << 10

// ReadPublicKeys reads a file with public keys of SSH, one in a line.
func ReadPublicKeys(file string) (keys []string, err error) {
	b, err := bounded.ReadFile(file, maxKeys)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "public key", err)
	}
	keys, err = parsePublicKeys(string(b))
	return keys, fault.Op(file, err)
}

// parsePublicKeys reads the format of authorized_keys (sshd(8)).
func parsePublicKeys(text string) (keys []string, err error) {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return nil, fault.WithFix(fault.New(fault.Invalid, "this is a private key"), "name the public one, FILE.pub")
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if safetext.Line(line) != line || !hasPublicKey(line) {
			return nil, fault.WithFix(fault.New(fault.Invalid, "line %d is not a public key of SSH", n),
				"name a file such as ~/.ssh/id_ed25519.pub")
		}
		keys = append(keys, line)
	}
	if len(keys) == 0 {
		return nil, fault.WithFix(fault.New(fault.Invalid, "the text contains no public key"), "create one with ssh-keygen")
	}
	return keys, nil
}

// hasPublicKey tells whether a line has the name of an algorithm and a key of that algorithm,
// which begins with the name (RFC 4253, 6.6).
func hasPublicKey(line string) bool {
	words := strings.Fields(line)
	for i := range len(words) - 1 {
		blob, err := base64.StdEncoding.DecodeString(words[i+1])
		if err == nil && len(blob) > 4 && int64(binary.BigEndian.Uint32(blob)) == int64(len(words[i])) &&
			strings.HasPrefix(string(blob[4:]), words[i]) {
			return true
		}
	}
	return false
}

// portSSH is the port of SSH servers.
const portSSH = 22

// SSHServer is where the SSH server of a running guest is reached: by a published port, or,
// in a network namespace of this machine ("" for none), at an address of the guest. An error
// of kind fault.Unsupported says what would make it reachable.
func (g *Guest) SSHServer() (namespace string, at netip.AddrPort, err error) {
	if g.State != Running {
		return "", at, fault.WithFix(fault.New(fault.Unsupported, "guest %s is %s", g.UUID, g.State),
			"run bakeoff vm start "+g.UUID)
	}
	for _, text := range g.Reached {
		if p, err := ParsePort(text); err == nil && p.Guest == portSSH {
			return "", p.Host, nil
		}
	}
	for _, nic := range g.NICs {
		n, err := g.store.Networks().Find(nic.NicTag)
		if err != nil || nic.VLAN != 0 { // this machine has no address in a VLAN
			continue
		}
		if a := n.AddressOf(memberOf(g.Guest, nic, n)); a.IsValid() {
			if g.store.freebsd() { // this machine reaches the bridge
				return "", netip.AddrPortFrom(a, portSSH), nil
			}
			return filepath.Join("/run/netns", n.Namespace()), netip.AddrPortFrom(a, portSSH), nil
		}
	}
	return "", at, fault.WithFix(fault.New(fault.Unsupported, "this machine does not reach port %d of guest %s", portSSH,
		g.UUID), `publish the port (ports: ["2222:22"]), or put a NIC into a network of bakeoff vm network`)
}
