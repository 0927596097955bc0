package network

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/netns"
	"bakeoff/provision/vm/filter"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// machine is this machine with a kernel that has no VLANs, or that makes veths in their place:
// not every kernel that runs tests has VLANs.
type machine struct {
	local.Conn
	refuses bool
	tagged  []string // the commands that make an interface of a VLAN
}

var makesVLAN = regexp.MustCompile(`link add link (\S+) name (\S+) type vlan id \d+`)

func (m *machine) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if cmd.Stdin != nil {
		b, err := io.ReadAll(cmd.Stdin)
		if err != nil {
			return conn.Exit{}, err
		}
		if c := makesVLAN.FindStringSubmatch(string(b)); c != nil {
			m.tagged = append(m.tagged, c[0])
			instead := "link show dev " + c[1] + "\nlink add " + c[2] + " type veth peer name _peer"
			if m.refuses {
				instead = "link add " + c[2] + " type nothing"
			}
			b = []byte(strings.Replace(string(b), c[0], instead, 1))
		}
		cmd.Stdin = strings.NewReader(string(b))
	}
	return m.Conn.Exec(ctx, cmd)
}

func (m *machine) Keep(_ context.Context, path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return local.Keep(path, data)
}

func (m *machine) Remove(_ context.Context, path string) error { return os.RemoveAll(path) }

// apart reports whether the test is where it can have all names. Otherwise it executes the test
// there.
func apart(t *testing.T) bool {
	t.Helper()
	const inside = "BAKEOFF_TEST_NETWORKS"
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	// Processes that a test leaves, such as dnsmasq, end with it.
	c := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `mount -t tmpfs none /run && exec "$@"`, "sh", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), inside+"=1")
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP: "+t.Name()) {
		t.Skip(string(out))
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// A NIC with vlan_id at an uplink is at a bridge with the frames of the uplink that have the tag,
// or there is an error: also after an attempt that failed or was killed, and also if the name of
// the uplink looks like that of an interface of a VLAN.
func TestTaggedNIC(t *testing.T) {
	if !apart(t) {
		return
	}
	for _, uplink := range []string{"eth1", "br0", "br8", "up8", "vlan8"} {
		t.Run(uplink, func(t *testing.T) { taggedNIC(t, uplink) })
	}
}

// A bridge cannot be a part of the bridge of a network.
func TestABridgeAsUplink(t *testing.T) {
	if !apart(t) {
		return
	}
	m := &machine{}
	if err := netns.IP(t.Context(), m, "", "link add br0 type bridge"); err != nil {
		t.Fatal(err)
	}
	s := &Store{State: t.TempDir(), Host: m, At: m}
	_, err := s.Create(t.Context(), manifest.Network{Name: "lan", Uplink: "br0"})
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "uplink br0 is a bridge") {
		t.Error(err)
	}
	if all, err := s.List(); err != nil || len(all) > 0 {
		t.Errorf("it left %v, %v", all, err)
	}
}

func taggedNIC(t *testing.T, uplink string) {
	m := &machine{refuses: true}
	if err := Check(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	ip := func(namespace string, commands ...string) {
		t.Helper()
		if err := netns.IP(t.Context(), m, namespace, commands...); err != nil {
			t.Fatal(err)
		}
	}
	ip("", "link add "+uplink+" type veth peer name w"+uplink, "netns add c"+uplink)
	s := &Store{State: t.TempDir(), Host: m, At: m}
	n, err := s.Create(t.Context(), manifest.Network{Name: "trunk", Uplink: uplink})
	if err != nil {
		t.Fatal(err)
	}
	attach := func(link string) error {
		return n.Attach(t.Context(), Port{Link: link, VLAN: 8, Filter: filter.NIC{MAC: "02:00:00:00:00:08"},
			Veth: &Veth{Namespace: "c" + uplink, Name: "n" + link}})
	}
	for range 2 {
		if err := attach("boga"); !strings.Contains(fault.Fix(err), "modprobe 8021q") {
			t.Fatalf("without VLANs in the kernel: %v", err)
		}
	}
	m.refuses = false
	ip(n.Namespace(), "link add "+bridgeOf(8)+" type bridge") // of a command that was killed
	for _, link := range []string{"boga", "bogb"} {
		if err := attach(link); err != nil {
			t.Fatal(err)
		}
	}
	made := "link add link " + uplink + " name " + taggedOf(8) + " type vlan id 8"
	if got := strings.Join(m.tagged, "\n"); got != strings.Join([]string{made, made, made}, "\n") {
		t.Errorf("the commands are\n%s", got)
	}
	out, err := conn.Output(t.Context(), m, "ip", "-n", n.Namespace(), "-o", "link", "show", "master", bridgeOf(8))
	if got := string(out); err != nil || strings.Count(got, "\n") != 3 || !strings.Contains(got, " boga@") ||
		!strings.Contains(got, " bogb@") || !strings.Contains(got, " "+taggedOf(8)+"@") {
		t.Errorf("at the bridge are %v\n%s", err, got)
	}
	if err := n.Delete(t.Context(), func() ([]string, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if have, err := netns.HasLink(t.Context(), m, "", uplink); err != nil || !have {
		t.Errorf("the machine has its uplink: %v, %v", have, err)
	}
}
