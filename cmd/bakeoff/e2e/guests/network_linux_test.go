package guests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/filter/filtertest"
	"bakeoff/provision/vm/manifest"
)

// networkHome is a home in which networks can be made.
func networkHome(t *testing.T) e2e.Home {
	t.Helper()
	for program, pkg := range map[string]string{"nft": "nftables", "dnsmasq": "dnsmasq-base",
		"busybox": "busybox-static"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	return home(t)
}

// removeNetworks removes the guests and then the networks of a home, and asserts that nothing
// is left of them.
func removeNetworks(t *testing.T, h e2e.Home) {
	t.Helper()
	removeGuests(t, h)
	var namespaces []string
	for _, n := range networks(t, h) {
		namespaces = append(namespaces, n.Namespace())
		var was struct{ Networks []networkRow }
		if decode(t, do(t, h, "network", "delete", n.Name, "--json"), &was); len(was.Networks) != 1 ||
			was.Networks[0].ID != n.ID {
			t.Errorf("network delete --json prints %+v", was)
		}
	}
	for _, ns := range namespaces {
		for _, at := range []string{"/run/netns/" + ns, "/run/bakeoff/" + ns} {
			if _, err := os.Stat(at); err == nil {
				t.Errorf("%s is left", at)
			}
		}
		if left := processes(t, ns); len(left) > 0 {
			t.Errorf("processes are left: %q", left)
		}
	}
	leavesNothing(t, h)
}

type networkRow struct {
	Name   string   `json:"network"`
	ID     string   `json:"id"`
	State  string   `json:"state"`
	Guests []string `json:"guests"`
}

func (n networkRow) Namespace() string { return "bo-n" + n.ID }

func networks(t *testing.T, h e2e.Home) []networkRow {
	t.Helper()
	var doc struct{ Networks []networkRow }
	if err := json.Unmarshal([]byte(do(t, h, "network", "list", "--json")), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Networks
}

// box is a service with busybox, and files beside it, that runs a command.
func box(t *testing.T, h e2e.Home, name string, command []string, files ...string) string {
	t.Helper()
	dir := filepath.Join(h.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(busybox)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "busybox"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := "schema: bakeoff/service/v1\nname: " + name + "\nbase: scratch\nfiles:\n" +
		"  - {from: busybox, to: /bin/busybox, mode: 0755}\n"
	for _, f := range files {
		text += "  - {from: " + f + ", to: /" + f + ", mode: 0755}\n"
	}
	line, err := json.Marshal(command)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "service.yaml"), []byte(text+"run: "+string(line)+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var sleeps = []string{"/bin/busybox", "sleep", "1000000"}

// eventually executes a program of busybox in a guest until it succeeds.
func eventually(t *testing.T, h e2e.Home, guest string, argv ...string) string {
	t.Helper()
	args := append([]string{"vm", "exec", guest, "--", "/bin/busybox"}, argv...)
	var out, errs string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var code int
		if out, errs, code = h.Bakeoff(t, limit, args...); code == 0 {
			return out + errs
		}
	}
	t.Errorf("%s in %s does not succeed: %s%s", strings.Join(argv, " "), guest, out, errs)
	return ""
}

// Guests in a network reach each other by address and name, and nothing else. A network is
// listed, kept by clean, cannot be deleted under a guest, and survives the end of dnsmasq and
// of its namespace.
func TestNetworks(t *testing.T) {
	h := networkHome(t)
	for words, args := range map[string][]string{
		"not a name of a network":           {"a b"},
		"not a network; write":              {"a", "--subnet", "10.0.0.1"},
		"NAT needs an interface":            {"a", "--subnet", "10.0.0.0/24", "--nat"},
		"no interface nowhere0":             {"a", "--uplink", "nowhere0"},
		"only frames at an uplink":          {"a", "--vlan", "7"},
		"subnet of this IP version":         {"a", "--subnet", "10.0.0.0/24", "--subnet", "10.1.0.0/24"},
		"prefix length is out of range":     {"a", "--subnet", "10.0.0.0/31"},
		"not a name of a network interface": {"a", "--uplink", "x;y"},
	} {
		refused(t, h, 1, words, append([]string{"network", "create"}, args...)...)
	}
	if all := networks(t, h); len(all) != 0 {
		t.Errorf("refused networks exist: %+v", all)
	}
	do(t, h, "network", "create", "back", "--subnet", "10.9.0.0/24", "--subnet", "fd00:9::/64")
	do(t, h, "network", "create", "other/2")
	refused(t, h, 1, "network back exists", "network", "create", "back")
	if got := do(t, h, "network", "list", "-H", "-p", "-o", "name,subnet,state", "name=other/2"); got != "other/2::up" {
		t.Errorf("list prints %q", got)
	}
	if out, _, _ := h.Bakeoff(t, limit, "clean"); !strings.Contains(out, "guests in network back") {
		t.Errorf("clean prints %s", out)
	}
	dir := box(t, h, "box", sleeps)
	guest := func(alias, nics string) string {
		return fmt.Sprintf("{brand: docker, alias: %s, image: %s, ram: 64, nics: [%s]}", alias, dir, nics)
	}
	refused(t, h, 1, "there is no such network; run `bakeoff vm network create", "create", "-f",
		file(t, "a.yaml", guest("x", "{nic_tag: nowhere, ips: 10.9.0.9/24}")))
	refused(t, h, 1, "this machine has this address", "create", "-f",
		file(t, "b.yaml", guest("x", "{nic_tag: back, ips: 10.9.0.1/24}")))
	refused(t, h, 1, "has no DHCP server", "create", "-f", file(t, "c.yaml", guest("x", "{nic_tag: other/2}")))
	do(t, h, "create", "-f", file(t, "d.yaml", "- "+guest("one", "{nic_tag: back, ips: [10.9.0.10/24, 'fd00:9::a/64']}")+
		"\n- "+guest("two", "{nic_tag: back, ips: [dhcp, addrconf]}, {nic_tag: other/2, ips: 10.7.0.30/24, mtu: 1400}")+
		"\n- "+guest("three", "{nic_tag: other/2, ips: 10.7.0.31/24}, {nic_tag: back, vlan_id: 7, ips: 10.8.0.1/24}")+
		"\n- "+guest("four", "{nic_tag: back, vlan_id: 7, ips: 10.8.0.2/24}")))
	eventually(t, h, "one", "ping", "-c", "1", "-W", "1", "two")
	eventually(t, h, "two", "ping", "-c", "1", "-W", "1", "one")
	eventually(t, h, "two", "ping6", "-c", "1", "-W", "1", "fd00:9::a")
	eventually(t, h, "two", "ping", "-c", "1", "-W", "1", "10.7.0.31")
	eventually(t, h, "three", "ping", "-c", "1", "-W", "1", "10.8.0.2")
	for _, unreachable := range [][]string{{"one", "10.7.0.31"}, {"one", "10.8.0.2"}, {"four", "10.9.0.10"}} {
		if _, _, code := h.Bakeoff(t, limit, "vm", "exec", unreachable[0], "--", "/bin/busybox", "ping", "-c", "1", "-W", "1",
			unreachable[1]); code == 0 {
			t.Errorf("%s reaches %s in another network", unreachable[0], unreachable[1])
		}
	}
	if got := do(t, h, "exec", "two", "--", "/bin/busybox", "cat", "/sys/class/net/net1/mtu"); got != "1400" {
		t.Errorf("the mtu is %s", got)
	}
	address := do(t, h, "exec", "two", "--", "/bin/busybox", "ip", "addr", "show", "net0")
	lease := eventually(t, h, "two", "udhcpc", "-i", "net0", "-n", "-q", "-f", "-s", "/bin/busybox")
	if !strings.Contains(address, "inet 10.9.0.2/24") || !strings.Contains(lease, "lease of 10.9.0.2 obtained") {
		t.Errorf("the address of two is\n%s\nand DHCP gives\n%s", address, lease)
	}
	// ssh itself says which address it tried, in the network namespace.
	refused(t, h, 255, "connect to host 10.9.0.10 port 22: Connection refused", "ssh", "root@one", "--", "-o",
		"BatchMode=yes", "true")
	refused(t, h, 1, "does not reach port 22", "ssh", "four")
	refused(t, h, 1, "is in use by", "network", "delete", "back")
	refused(t, h, 1, "has this address", "update", "one", "-f", file(t, "e.json",
		`{"add_nics": [{"nic_tag": "back", "ips": "10.7.0.30/9"}]}`))

	ns := networks(t, h)[0].Namespace()
	killServer(t, ns)
	for end := time.Now().Add(time.Minute); len(processes(t, "/run/bakeoff/"+ns)) == 0; {
		if time.Now().After(end) {
			t.Fatal("dnsmasq does not come back")
		}
		time.Sleep(50 * time.Millisecond)
	}
	eventually(t, h, "one", "ping", "-c", "1", "-W", "1", "two")

	killProcesses(t, h.Dir, "vm\x00supervise")
	for end := time.Now().Add(time.Minute); do(t, h, "lookup", "state=running") != ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("guests run without a supervisor: %s", do(t, h, "list"))
		}
	}
	do(t, h, "start", "--autoboot")
	eventually(t, h, "one", "ping", "-c", "1", "-W", "1", "two")
	if tables, err := exec.Command("ip", "netns", "exec", ns, "nft", "list", "tables").Output(); err != nil ||
		strings.Count(string(tables), "table netdev") != 4 {
		t.Errorf("4 NICs have the tables %v\n%s", err, tables)
	}

	do(t, h, "stop", "--all") // as a restart of the machine
	killServer(t, ns)
	if out, err := exec.Command("ip", "netns", "delete", ns).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if got := do(t, h, "network", "list", "-H", "-o", "state", "name=back"); got != "down" {
		t.Errorf("the network is %s", got)
	}
	do(t, h, "start", "--autoboot")
	eventually(t, h, "one", "ping", "-c", "1", "-W", "1", "two")
	do(t, h, "delete", "two")
	if _, _, code := h.Bakeoff(t, limit, "vm", "exec", "one", "--", "/bin/busybox", "nslookup", "two"); code == 0 {
		t.Error("a deleted guest has a name")
	}
	removeNetworks(t, h)
}

// killServer kills the dnsmasq of a network.
func killServer(t *testing.T, namespace string) {
	t.Helper()
	for _, p := range processes(t, "/run/bakeoff/"+namespace) {
		pid, err := strconv.Atoi(strings.Fields(p)[0])
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// A command that creates a network is killed at different moments: what is there is listed,
// can be deleted, and leaves nothing.
func TestKilledNetworkCreate(t *testing.T) {
	h := networkHome(t)
	for i := range 6 {
		c := h.Command("vm", "network", "create", "back", "--subnet", "10.9.0.0/24")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+40*i) * time.Millisecond) // a moment, whichever it is
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed, or had ended
		if all := networks(t, h); len(all) == 1 {
			do(t, h, "network", "delete", "back")
		} else {
			refused(t, h, 1, "there is no network", "network", "delete", "back")
		}
		removeNetworks(t, h)
	}
}

// An update changes the routes of a running container at once, all of them or none, and a start gives it
// the same ones.
func TestRoutesOfRunning(t *testing.T) {
	h := networkHome(t)
	dir := box(t, h, "box", sleeps)
	do(t, h, "network", "create", "left")
	for _, driver := range manifest.Docker.Drivers() {
		t.Run(driver, func(t *testing.T) {
			needsDriver(t, driver)
			do(t, h, "create", "-f", file(t, "a.yaml", fmt.Sprintf(`{brand: docker, alias: a, image: %s, driver: %s, ram: 64,
  nics: [{nic_tag: left, ips: 10.1.0.2/24, gateways: 10.1.0.1}], routes: {10.5.0.0/16: 10.1.0.5, 10.6.0.1: 'nics[0]'}}`,
				dir, driver)))
			routes := func(want ...string) {
				t.Helper()
				lines := strings.Split(strings.TrimSpace(do(t, h, "exec", "a", "--", "/bin/busybox", "ip", "route")), "\n")
				for i, line := range lines {
					lines[i], _, _ = strings.Cut(line, " dev ")
				}
				if got := slices.Sorted(slices.Values(lines)); !slices.Equal(got, want) {
					t.Errorf("the routes are %q, and not %q", got, want)
				}
			}
			update := func(text string) (said string) {
				t.Helper()
				_, said, code := h.Bakeoff(t, limit, "vm", "update", "a", "-f", file(t, "u.json", text))
				if code != 0 {
					t.Fatal(said)
				}
				return said
			}
			routes("10.1.0.0/24", "10.5.0.0/16 via 10.1.0.5", "10.6.0.1", "default via 10.1.0.1")
			said := update(`{"set_routes": {"10.5.0.0/16": "10.1.0.6", "10.7.0.0/16": "10.1.0.5"},
				"remove_routes": ["10.6.0.1"]}`)
			if strings.Count(said, "(live)") != 3 {
				t.Errorf("it takes effect %s", said)
			}
			want := []string{"10.1.0.0/24", "10.5.0.0/16 via 10.1.0.6", "10.7.0.0/16 via 10.1.0.5", "default via 10.1.0.1"}
			routes(want...)
			for _, bad := range []string{`"10.8.0.0/16": "10.200.0.1"`, `"10.1.0.0/24": "nics[0]"`} {
				refused(t, h, 1, "ip route add", "update", "a", "-f", file(t, "bad.json",
					`{"alias": "b", "remove_routes": ["10.5.0.0/16"], "set_routes": {"10.0.0.0/8": "10.1.0.9", `+bad+`}}`))
				routes(want...)
			}
			if got := guest(t, h, "a").Routes; len(got) != 2 || got["10.5.0.0/16"] != "10.1.0.6" {
				t.Errorf("after a refusal, the manifest has %v", got)
			}
			do(t, h, "reboot", "a")
			routes(want...)
			if said := update(`{"remove_routes": ["10.7.0.0/16"], "update_nics": [{"mac": "` + guest(t, h, "a").NICs[0].MAC +
				`", "mtu": 1400}]}`); strings.Count(said, "(next boot)") != 2 {
				t.Errorf("it takes effect %s", said)
			}
			routes(want...)
			do(t, h, "reboot", "a")
			routes(slices.Delete(want, 2, 3)...)
			do(t, h, "delete", "a")
		})
	}
	removeNetworks(t, h)
}

// A guest with a NIC in two networks forwards between them if it may send packets of others: a
// container, and a machine whose program turns forwarding on.
func TestGuestAsGateway(t *testing.T) {
	h := networkHome(t)
	dir := box(t, h, "box", sleeps)
	box(t, h, "router", sleeps)
	script := `b=/bin/busybox
for i in /sys/class/net/*; do
	case $($b cat $i/address) in
	02:00:00:00:01:01) address=10.1.0.1/24;;
	02:00:00:00:02:01) address=10.2.0.1/24;;
	*) continue;;
	esac
	$b ip link set ${i##*/} up
	$b ip addr replace $address dev ${i##*/}
done
echo 1 >/proc/sys/net/ipv4/ip_forward
exec $b sleep 1000000
`
	if err := os.WriteFile(filepath.Join(h.Dir, "router", "router"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	router := box(t, h, "router", []string{"/bin/busybox", "sh", "/router"}, "router")
	// Neither network has an address of this machine: only the guest can forward.
	do(t, h, "network", "create", "left")
	do(t, h, "network", "create", "right")
	do(t, h, "create", "-f", file(t, "g.yaml", fmt.Sprintf(`
- {brand: docker, alias: a, image: %[1]s, ram: 64, nics: [{nic_tag: left, ips: 10.1.0.2/24, gateways: 10.1.0.1}]}
- {brand: docker, alias: b, image: %[1]s, ram: 64, nics: [{nic_tag: right, ips: 10.2.0.2/24}],
   routes: {10.1.0.0/24: 10.2.0.1}}
`, dir)))
	gateways := []string{"brand: microvm, image: " + router}
	for _, driver := range manifest.Docker.Drivers() {
		gateways = append(gateways, "brand: docker, image: "+dir+", driver: "+driver)
	}
	for _, gateway := range gateways {
		needsDriver(t, gateway)
		do(t, h, "create", "-f", file(t, "gateway.yaml", fmt.Sprintf(`{%s, alias: gateway, ram: 128, nics: [
    {nic_tag: left, ips: 10.1.0.1/24, mac: '02:00:00:00:01:01', allow_ip_spoofing: true},
    {nic_tag: right, ips: 10.2.0.1/24, mac: '02:00:00:00:02:01', allow_ip_spoofing: true}]}`, gateway)))
		eventually(t, h, "a", "ping", "-c", "1", "-W", "1", "10.2.0.2")
		got := eventually(t, h, "a", "traceroute", "-n", "-q", "1", "-w", "5", "10.2.0.2")
		if !strings.Contains(got, " 1  10.1.0.1 ") {
			t.Errorf("%s: the way is\n%s", gateway, got)
		}
		do(t, h, "update", "gateway", "-f", file(t, "u.json",
			`{"update_nics": [{"mac": "02:00:00:00:02:01", "allow_ip_spoofing": false}]}`))
		if _, _, code := h.Bakeoff(t, limit, "vm", "exec", "a", "--", "/bin/busybox", "ping", "-c", "2", "-W", "1",
			"10.2.0.2"); code == 0 {
			t.Errorf("%s: it forwards packets that it may not send", gateway)
		}
		do(t, h, "update", "gateway", "-f", file(t, "v.json",
			`{"update_nics": [{"mac": "02:00:00:00:02:01", "allowed_ips": "10.1.0.0/24"}]}`))
		eventually(t, h, "a", "ping", "-c", "1", "-W", "1", "10.2.0.2")
		do(t, h, "delete", "gateway")
	}
	removeNetworks(t, h)
}

// Raw frames of every kind are sent from inside of a container and of a machine, with each set
// of flags, and captured in another guest, which may receive all of them. Flags change while the guests run.
func TestPacketsThatMustNotPass(t *testing.T) {
	h := networkHome(t)
	frames := filtertest.Frames()
	end := filtertest.Frame{Bytes: frames[0].Bytes}
	box(t, h, "frames", []string{"/sender"})
	e2e.Build(t, filtertest.Sender, filepath.Join(h.Dir, "frames", "sender"))
	if err := os.WriteFile(filepath.Join(h.Dir, "frames", "frames"),
		[]byte(filtertest.Text(append(slices.Clone(frames), end))), 0o600); err != nil {
		t.Fatal(err)
	}
	sends := box(t, h, "frames", []string{"/sender"}, "sender", "frames")
	do(t, h, "network", "create", "back", "--subnet", "10.9.0.0/24")
	do(t, h, "create", "-f", file(t, "o.yaml", fmt.Sprintf("{brand: docker, alias: observer, image: %s, ram: 64, "+
		"nics: [{nic_tag: back, ips: 10.9.0.77/24, allow_restricted_traffic: true}]}", box(t, h, "box", sleeps))))
	fd := capture(t, "/run/netns/bo-vm-"+guest(t, h, "observer").UUID, "net0")
	defer unix.Close(fd)
	kinds := []string{"brand: microvm"}
	for _, driver := range manifest.Docker.Drivers() {
		kinds = append(kinds, "brand: docker\ndriver: "+driver)
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			needsDriver(t, kind)
			do(t, h, "create", "-f", file(t, "s.yaml", fmt.Sprintf(`
%s
alias: sender
image: %s
ram: 256
nics:
  - nic_tag: back
    mac: %s
    ips: [%s/24, %s/64]
    allowed_ips: [%s, %s]
    allowed_dhcp_cids: [%s]
    blocked_outgoing_ports: [%d]
`, kind, sends, filtertest.MAC, filtertest.Address, filtertest.Address6, filtertest.AllowedNetwork,
				filtertest.AllowedNetwork6, filtertest.ClientID, filtertest.BlockedPort)))
			for _, with := range filtertest.Sets() {
				setFlags(t, h, with)
				seen := wholeRound(t, fd, len(frames))
				if seen == nil {
					t.Fatalf("the guest sends nothing:\n%s", do(t, h, "logs", "sender"))
				}
				for _, w := range filtertest.Wrong(frames, with, seen) {
					t.Error(w)
				}
			}
			do(t, h, "delete", "sender")
		})
	}
	removeNetworks(t, h)
}

// setFlags changes what the sender may send.
func setFlags(t *testing.T, h e2e.Home, with []filtertest.Flag) {
	t.Helper()
	change := map[string]any{"mac": filtertest.MAC}
	for _, f := range []filtertest.Flag{filtertest.MACSpoofing, filtertest.RestrictedTraffic, filtertest.IPSpoofing,
		filtertest.DHCPSpoofing} {
		change[string(f)] = slices.Contains(with, f)
	}
	change[string(filtertest.AnyPort)] = []int{filtertest.BlockedPort}
	if slices.Contains(with, filtertest.AnyPort) {
		change[string(filtertest.AnyPort)] = ""
	}
	text, err := json.Marshal(map[string]any{"update_nics": []any{change}})
	if err != nil {
		t.Fatal(err)
	}
	do(t, h, "update", "sender", "-f", file(t, "flags.json", string(text)))
	if g := guest(t, h, "sender"); g.State != vm.Running {
		t.Fatalf("the sender is %s", g.State)
	}
}

// capture opens a socket for the frames of a link in a network namespace.
func capture(t *testing.T, namespace, link string) (fd int) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		ns, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(ns, unix.CLONE_NEWNET)
		}
		var r *unix.Ifreq
		if err == nil {
			fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		}
		if err == nil {
			r, err = unix.NewIfreq(link)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r)
		}
		if err == nil {
			const all = unix.ETH_P_ALL << 8 // in the order of the network
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(r.Uint32())})
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return fd
}

// wholeRound returns which frames of a round arrived that began after this call; nil if nothing
// arrives for minutes.
func wholeRound(t *testing.T, fd, last int) map[int]bool {
	t.Helper()
	buf := make([]byte, 4096)
	for { // what was sent before
		if _, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT); err != nil {
			break
		}
	}
	var counts uint32 // the round that counts
	seen := map[int]bool{}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000); n <= 0 {
			if err != nil && err != unix.EINTR {
				t.Fatal(err)
			}
			continue
		}
		n, err := unix.Read(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		number, round, ok := filtertest.Read(buf[:n])
		switch {
		case !ok:
		case counts == 0:
			counts = round + 1
		case round == counts && number < last:
			seen[number] = true
		case round > counts && number == last: // those of the round before have all arrived
			return seen
		}
	}
	return nil
}

// The example: a web server that is published counts its visits in a database that only it
// reaches. The second apply changes nothing.
func TestExampleOfGuests(t *testing.T) {
	h := networkHome(t)
	examples := filepath.Join(filepath.Dir(filepath.Dir(service(t, "web"))), "examples", "guests")
	text, err := os.ReadFile(filepath.Join(examples, "guests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := file(t, "guests.yaml", strings.NewReplacer(`"8080:80"`, `"80"`, "../../services/database",
		service(t, "database"), "./web", filepath.Join(examples, "web")).Replace(string(text)))
	do(t, h, "apply", "-f", path)
	g := guest(t, h, "web")
	if len(g.Reached) != 1 {
		t.Fatalf("%+v", g.Status)
	}
	at := "http://" + strings.TrimSuffix(g.Reached[0], ":80") + "/cgi-bin/visits"
	visit := func() int {
		client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(at)
		if err != nil {
			return 0
		}
		defer r.Body.Close()
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		n, aerr := strconv.Atoi(strings.TrimSpace(string(body)))
		if err != nil || aerr != nil {
			t.Logf("the page is %q, %v", body, err)
		}
		return n
	}
	first := 0
	for end := time.Now().Add(5 * time.Minute); first == 0; time.Sleep(100 * time.Millisecond) {
		if first = visit(); time.Now().After(end) {
			t.Fatalf("no page within five minutes:\n%s\n%s", do(t, h, "logs", "web"), do(t, h, "logs", "database"))
		}
	}
	if second := visit(); second != first+1 {
		t.Errorf("visits %d and %d", first, second)
	}
	if g := guest(t, h, "database"); len(g.Reached) != 0 {
		t.Errorf("the database is published: %q", g.Reached)
	}
	if out, errs, code := h.Bakeoff(t, limit, "vm", "apply", "-f", path); code != 0 || out != "" ||
		errs != "network backend: no change\ndatabase: no change\nweb: no change\n" {
		t.Errorf("the second apply: exit code %d\n%s%s", code, out, errs)
	}
	refused(t, h, 1, "the network exists with other properties", "apply", "-f", file(t, "other.yaml",
		strings.Replace(string(text), "10.77.0.0/24", "10.78.0.0/24", 1)))
	removeNetworks(t, h)
}

// ip executes ip(8) in a namespace.
func ip(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", append([]string{"-n", namespace}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("ip -n %s %s: %v\n%s", namespace, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// inside calls do on a thread in a network namespace, in which the programs that it starts
// then are.
func inside(t *testing.T, namespace string, do func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer close(done)      // also if do ends the test
		runtime.LockOSThread() // and never unlocked: the thread ends
		fd, err := unix.Open("/run/netns/"+namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
		}
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// An uplink leads out: with NAT by the address of the machine, which nothing new reaches from
// outside, or as a part of the network. What was changed for it is changed back. The machine is
// a network namespace.
func TestUplinks(t *testing.T) {
	h := networkHome(t)
	machine, world := fmt.Sprintf("bo-tm%d", os.Getpid()), fmt.Sprintf("bo-tw%d", os.Getpid())
	for _, ns := range []string{machine, world} {
		if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		t.Cleanup(func() {
			if out, err := exec.Command("ip", "netns", "delete", ns).CombinedOutput(); err != nil {
				t.Error(err, string(out))
			}
		})
	}
	ip(t, machine, "link", "set", "lo", "up")
	for _, link := range []string{"up1", "up2"} {
		ip(t, machine, "link", "add", link, "type", "veth", "peer", "name", link, "netns", world)
		ip(t, world, "link", "set", link, "up")
	}
	ip(t, machine, "link", "set", "up1", "up")
	ip(t, machine, "addr", "add", "192.0.2.2/24", "dev", "up1")
	ip(t, world, "addr", "add", "192.0.2.1/24", "dev", "up1")
	ip(t, world, "addr", "add", "10.6.0.1/24", "dev", "up2")
	ip(t, world, "route", "add", "10.5.0.0/24", "via", "192.0.2.2")
	inside(t, machine, func() {
		setting := func() string {
			out, err := exec.Command("cat", "/proc/sys/net/ipv4/conf/up1/forwarding").Output()
			if err != nil {
				t.Error(err)
			}
			return strings.TrimSpace(string(out))
		}
		off := exec.Command("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward")
		if out, err := off.CombinedOutput(); err != nil {
			t.Error(err, string(out))
		}
		before, links := setting(), ip(t, machine, "-br", "addr", "show", "up1")
		refused(t, h, 1, "uplink up1 may be in use, because it has the address", "network", "create", "lab",
			"--uplink", "up1")
		do(t, h, "network", "create", "out", "--subnet", "10.5.0.0/24", "--nat", "--uplink", "up1")
		do(t, h, "network", "create", "lab", "--uplink", "up2")
		if on := setting(); before != "0" || on != "1" {
			t.Errorf("forwarding was %s and is %s", before, on)
		}
		dir := box(t, h, "box", sleeps)
		do(t, h, "create", "-f", file(t, "n.yaml", fmt.Sprintf(`
- {brand: docker, alias: a, image: %[1]s, ram: 64, nics: [{nic_tag: out, ips: 10.5.0.9/24}]}
- {brand: docker, alias: b, image: %[1]s, ram: 64, nics: [{nic_tag: lab, ips: 10.6.0.2/24}]}
`, dir)))
		eventually(t, h, "a", "ping", "-c", "1", "-W", "1", "192.0.2.1")
		behindFilters(t, h, machine)
		eventually(t, h, "b", "ping", "-c", "1", "-W", "1", "10.6.0.1")
		c := exec.Command("ip", "netns", "exec", world, "busybox", "ping", "-c", "1", "-W", "1", "10.5.0.9")
		if out, err := c.CombinedOutput(); err == nil {
			t.Errorf("the world reaches a guest behind NAT: %s", out)
		}
		removeGuests(t, h)
		do(t, h, "network", "delete", "out")
		do(t, h, "network", "delete", "lab")
		out, err := exec.Command("iptables", "--wait", "-S").Output()
		if err != nil || strings.Contains(string(out), "bakeoff") {
			t.Errorf("iptables has rules: %v\n%s", err, out)
		}
		// The table of iptables itself.
		if out, err := exec.Command("nft", "delete", "table", "ip", "filter").CombinedOutput(); err != nil {
			t.Error(err, string(out))
		}
		if after := setting(); after != before {
			t.Errorf("forwarding was %s and is %s", before, after)
		}
		if after := ip(t, machine, "-br", "addr", "show", "up1"); after != links {
			t.Errorf("the uplink was %s and is %s", links, after)
		}
		ip(t, machine, "link", "show", "up2")
		if out, err := exec.Command("nft", "list", "ruleset").CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("rules are left: %v\n%s", err, out)
		}
	})
	leavesNothing(t, h)
}

// behindFilters lets iptables drop what a machine forwards, as ufw does and as Docker does: a
// guest that starts then reaches the world, and the rules for it end with the network.
func behindFilters(t *testing.T, h e2e.Home, machine string) {
	t.Helper()
	if _, err := exec.LookPath("iptables"); err != nil {
		t.Error("needs iptables: apt-get install iptables")
		return
	}
	filter := func(arg ...string) string {
		argv := append([]string{"netns", "exec", machine, "iptables", "--wait"}, arg...)
		out, err := exec.Command("ip", argv...).CombinedOutput()
		if err != nil {
			t.Errorf("iptables %v: %v %s", arg, err, out)
		}
		return string(out)
	}
	filter("-P", "FORWARD", "DROP")
	for _, chain := range []string{"FORWARD", "DOCKER-USER"} {
		if chain == "DOCKER-USER" {
			filter("-F", "FORWARD")
			filter("-N", chain)
			filter("-A", chain, "-j", "RETURN")
			filter("-A", "FORWARD", "-j", chain)
		}
		if _, _, code := h.Bakeoff(t, 3*time.Minute, "vm", "exec", "a", "--", "/bin/busybox", "ping", "-c", "1",
			"-W", "1", "192.0.2.1"); code == 0 {
			t.Errorf("%s: the filter drops nothing", chain)
		}
		do(t, h, "reboot", "-F", "a")
		eventually(t, h, "a", "ping", "-c", "1", "-W", "1", "192.0.2.1")
		if got := filter("-S", chain); strings.Count(got, "bakeoff_") != 2 {
			t.Errorf("rules of %s: %s", chain, got)
		}
	}
}
