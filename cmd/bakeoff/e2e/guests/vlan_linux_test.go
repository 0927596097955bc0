package guests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Frames of a network with --vlan, and of a NIC with vlan_id at an uplink, have their tag outside,
// and no others reach the guests. What was changed for it is changed back. The machine is a
// Debian, because not every kernel that runs tests has VLANs; its guests are containers.
func TestTaggedUplinks(t *testing.T) {
	takesMinutes(t)
	h := networkHome(t)
	d := buildDebian(t, "crun,nftables,dnsmasq-base,tcpdump", func(root string) {
		programs := filepath.Dir(h.Command().Path)
		for _, name := range []string{"bakeoff", "bakeoff-agent"} {
			copyFile(t, filepath.Join(programs, name), filepath.Join(root, "usr/local/bin", name), 0o755)
		}
		dir := box(t, h, "box", sleeps)
		for name, mode := range map[string]os.FileMode{"busybox": 0o755, "service.yaml": 0o644} {
			copyFile(t, filepath.Join(dir, name), filepath.Join(root, "srv/box", name), mode)
		}
		writeIn(t, root, "usr/local/bin/eventually",
			"#!/bin/sh\nfor i in $(seq 100); do sh -c \"$1\" && exit; sleep 1; done; exit 1\n", 0o755)
		writeIn(t, root, "srv/guests.yaml", `
- {network: lab, uplink: up1, vlan_id: 7}
- {network: trunk, uplink: up8}
- {brand: docker, alias: a, image: /srv/box, ram: 32, nics: [{nic_tag: lab, ips: 10.6.7.2/24}]}
- {brand: docker, alias: b, image: /srv/box, ram: 32, nics: [{nic_tag: trunk, vlan_id: 8, ips: 10.6.8.2/24}]}
- {brand: docker, alias: c, image: /srv/box, ram: 32, nics: [{nic_tag: trunk, ips: 10.6.9.2/24}]}
`, 0o644)
		writeIn(t, root, "etc/systemd/system/serial-getty@ttyS0.service.d/shell.conf",
			"[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200 %I dumb\n", 0o644)
	})
	do(t, h, "create", "-f", file(t, "host.json", d.manifest("host", "")))
	c := &console{h: h, uuid: guest(t, h, "host").UUID}
	c.await(t)
	eventually := func(format string, args ...any) {
		t.Helper()
		c.run(t, "eventually '"+fmt.Sprintf(format, args...)+"' >/tmp/log 2>&1 || { tail /tmp/log /tmp/seen-*; false; }")
	}
	// watch writes the frames of an interface in a namespace to a file.
	watch := func(namespace, link, to string) {
		t.Helper()
		c.run(t, fmt.Sprintf("rm -f /tmp/seen-%[3]s /tmp/watch-%[3]s; ip netns exec %[1]s tcpdump -l -nne -i %[2]s "+
			">>/tmp/seen-%[3]s 2>/tmp/watch-%[3]s & true", namespace, link, to))
		eventually("grep -q listening /tmp/watch-%s", to)
	}
	c.run(t, "ip netns add world")
	for _, x := range []struct {
		uplink string
		tags   []int
	}{{"up1", []int{7}}, {"up8", []int{8, 10}}} {
		c.run(t, fmt.Sprintf("ip link add %[1]s type veth peer name %[1]s netns world && "+
			"ip -n world link set %[1]s up", x.uplink))
		for _, tag := range x.tags {
			c.run(t, fmt.Sprintf("ip -n world link add link %s name v%[2]d type vlan id %[2]d && "+
				"ip -n world addr add 10.6.%[2]d.1/24 dev v%[2]d && ip -n world link set v%[2]d up", x.uplink, tag))
		}
		watch("world", x.uplink, x.uplink)
	}
	c.run(t, "ip link set up1 up && ip addr add 192.0.2.2/24 dev up1 && ip -n world addr add 192.0.2.1/24 dev up1")
	c.run(t, "ip -n world addr add 10.6.9.1/24 dev up8")

	const outside = "ip netns exec world /srv/box/busybox "
	eventually(outside + "ping -c 1 -W 1 192.0.2.2")
	sides := []struct{ guest, uplink, network, tag, right, wrong string }{
		{"a", "up1", "10.6.7", "vlan 7, ", "v7", "up1 -s 192.0.2.1"},
		{"b", "up8", "10.6.8", "vlan 8, ", "v8", "up8 -s 10.6.9.1"},
		{"c", "up8", "10.6.9", "", "up8", "v8 -s 10.6.8.1"}}
	for range 2 { // the same tags again, as soon as they are free
		c.run(t, "for i in up1 up8; do : >/tmp/seen-$i; done; bakeoff vm apply -f /srv/guests.yaml 2>&1")
		for _, x := range sides {
			eventually("bakeoff vm exec %s -- /bin/busybox ping -c 1 -W 1 %s.1 && "+
				`grep -q "%[2]s.2 > %[2]s.1: ICMP" /tmp/seen-%[3]s`, x.guest, x.network, x.uplink)
		}
		for line := range strings.Lines(c.run(t, "cat /tmp/seen-*")) {
			for _, x := range sides {
				sent := strings.Contains(line, " "+x.network+".2 > ") || strings.Contains(line, "tell "+x.network+".2,") ||
					strings.Contains(line, "Reply "+x.network+".2 ")
				if sent && (!strings.Contains(line, x.tag) || x.tag == "" && strings.Contains(line, "vlan")) {
					t.Errorf("guest %s sends %s", x.guest, line)
				}
			}
		}
		watch("bo-vm-$(bakeoff vm lookup alias=c)", "net0", "c")
		c.run(t, "! "+outside+"arping -c 2 -w 3 -I v10 10.6.9.2")
		for _, x := range sides {
			eventually(outside+"arping -c 1 -w 3 -I %s %s.2", x.right, x.network)
			c.run(t, "! "+outside+"arping -c 2 -w 3 -I "+x.wrong+" "+x.network+".2")
		}
		eventually(outside + "arping -c 1 -w 1 -I up8 10.6.9.77; grep who-has.10.6.9.77 /tmp/seen-c")
		if got := c.run(t, "cat /tmp/seen-c"); strings.Contains(got, "vlan") {
			t.Errorf("guest c, without a tag, receives\n%s", got)
		}
		c.run(t, "(for i in a b c; do bakeoff vm delete $i || exit 1; done) && "+
			"bakeoff vm network delete lab && bakeoff vm network delete trunk")
		if got := c.run(t, "ip -br link"); strings.Contains(got, "bon") || strings.Contains(got, "vlan") ||
			!strings.Contains(got, "up1@") || !strings.Contains(got, "up8@") {
			t.Errorf("the interfaces are\n%s", got)
		}
		eventually(outside + "ping -c 1 -W 1 192.0.2.2")
	}
	// The namespace exists until nobody has it open.
	c.run(t, "bakeoff vm network create lab --uplink up1 --vlan 7 && (exec 9</run/netns/bo-n* && "+
		"bakeoff vm network delete lab && bakeoff vm network create lab --uplink up1 --vlan 7) && "+
		"bakeoff vm network delete lab")
	do(t, h, "delete", "host")
	leavesNothing(t, h)
}
