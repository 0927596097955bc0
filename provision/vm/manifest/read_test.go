package manifest

import (
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// newbox is the manifest of a web page of 2015 about SmartOS, whose brackets and
// addresses the page had lost.
const newbox = `{
	"brand": "kvm",
	"resolvers": ["192.0.2.53"],
	"ram": "256",
	"vcpus": "2",
	"nics": [{
		"nic_tag": "admin",
		"ip": "192.0.2.10",
		"netmask": "255.255.255.0",
		"gateway": "192.0.2.1",
		"model": "virtio",
		"primary": true,
		"allow_dhcp_spoofing": "true",
		"allow_ip_spoofing": "true",
		"allowed_ips": [""]
	}],
	"disks": [{
		"image_uuid": "d8e65ea2-1f3e-11e5-8557-6b43e0a88b38",
		"boot": true,
		"model": "virtio"
	}],
	"customer_metadata": {"root_authorized_keys": "ssh-rsa AAAAB3NzaC1y"}
}`

func TestNewbox(t *testing.T) {
	guests, err := Read("newbox.json", []byte(newbox))
	if err != nil {
		t.Fatal(err)
	}
	g := guests[0]
	n := g.NICs[0]
	if len(guests) != 1 || g.RAM != 256 || g.VCPUs != 2 || g.MaxPhysicalMemory != 1280 || !g.Autoboot || g.Quota != 10 ||
		!reflect.DeepEqual(n.IPs, []string{"192.0.2.10/24"}) || !reflect.DeepEqual(n.Gateways, []string{"192.0.2.1"}) ||
		!n.AllowIPSpoofing || !n.AllowDHCPSpoofing || n.AllowedIPs != nil || !g.Disks[0].Boot || g.Disks[0].Media != "disk" ||
		g.CustomerMetadata["root_authorized_keys"] != "ssh-rsa AAAAB3NzaC1y" {
		t.Errorf("%+v", g)
	}
	empty := strings.NewReplacer("192.0.2.10", "", "192.0.2.1", "", "255.255.255.0", "", `"192.0.2.53"`, `""`).
		Replace(newbox)
	if guests, err = Read("newbox.json", []byte(empty)); err != nil || guests[0].NICs[0].IPs != nil {
		t.Errorf("without addresses: %+v, %v", guests, err)
	}
}

// YAML says the same, and a list holds several guests.
func TestYAML(t *testing.T) {
	const two = "- {brand: lx, image: 'debian:12', ram: 64, tmpfs: 0}\n- brand: bhyve\n  disks: [{size: 10}]\n"
	guests, err := Read("two.yaml", []byte(two))
	if err != nil || len(guests) != 2 {
		t.Fatalf("%+v, %v", guests, err)
	}
	if g := guests[0]; g.TmpFS != 0 || g.Quota != 10 || g.MaxSwap != 256 || g.RAM != 64 {
		t.Errorf("%+v", g)
	}
	if g := guests[1]; g.Quota != 1 || g.MaxPhysicalMemory != 1536 || g.VCPUs != 1 {
		t.Errorf("%+v", g)
	}
}

// Each copy of the manifest has one property wrong: old is replaced by new.
func TestOneWrongProperty(t *testing.T) {
	for _, c := range []struct{ old, new, path, value, reason string }{
		{`"brand": "kvm"`, `"brand": "kwm"`, "brand", `"kwm"`, "no such brand"},
		{`"brand": "kvm"`, `"brand": 7`, "brand", "7", "no such brand"},
		{`"brand": "kvm"`, `"brand": []`, "brand", "a list", "it is a list"},
		{`"ram": "256"`, `"ram": "much"`, "ram", `"much"`, "whole number"},
		{`"ram": "256"`, `"ram": "0"`, "ram", `"0"`, "out of range"},
		{`"ram": "256"`, `"ram": -1`, "ram", "-1", "out of range"},
		{`"ram": "256"`, `"ram": 1.5`, "ram", "1.5", "whole number"},
		{`"ram": "256"`, `"ram": 99999999999`, "ram", "99999999999", "whole number"},
		{`"ram": "256"`, `"rma": 256`, "rma", "256", "unknown property"},
		{`"vcpus": "2"`, `"vcpus": 65`, "vcpus", "65", "out of range"},
		{`"vcpus": "2"`, `"vcpus": {}`, "vcpus", "a mapping", "whole number"},
		{`"vcpus": "2"`, `"vnc_port": 65536`, "vnc_port", "65536", "out of range"},
		{`"vcpus": "2"`, `"vnc_port": -2`, "vnc_port", "-2", "out of range"},
		{`"vcpus": "2"`, `"vnc_password": "123456789"`, "vnc_password", `"123456789"`, "8 characters"},
		{`"vcpus": "2"`, `"uuid": "1234"`, "uuid", `"1234"`, "not a UUID"},
		{`"vcpus": "2"`, `"owner_uuid": "../x"`, "owner_uuid", `"../x"`, "not a UUID"},
		{`"vcpus": "2"`, `"alias": "a\u0007b"`, "alias", `"a\ab"`, "control character"},
		{`"vcpus": "2"`, `"autoboot": "yes"`, "autoboot", `"yes"`, "truth value"},
		{`"vcpus": "2"`, `"autoboot": null`, "autoboot", "null", "truth value"},
		{`"vcpus": "2"`, `"boot": "cd"`, "boot", `"cd"`, "order of devices"},
		{`"vcpus": "2"`, `"cpu_type": "z80"`, "cpu_type", `"z80"`, "no such value"},
		{`"vcpus": "2"`, `"vga": "cga"`, "vga", `"cga"`, "no such value"},
		{`"vcpus": "2"`, `"restart": "maybe"`, "restart", `"maybe"`, "no such value"},
		{`"vcpus": "2"`, `"bootrom": "uefi"`, "bootrom", `"uefi"`, "do not have it"},
		{`"vcpus": "2"`, `"flexible_disk_size": 5`, "flexible_disk_size", "5", "do not have it"},
		{`"vcpus": "2"`, `"filesystems": []`, "filesystems", "a list", "do not have it"},
		{`"vcpus": "2"`, `"routes": {}`, "routes", "a mapping", "do not have it"},
		{`"vcpus": "2"`, `"tmpfs": 5`, "tmpfs", "5", "do not have it"},
		{`"vcpus": "2"`, `"entrypoint": []`, "entrypoint", "a list", "do not have it"},
		{`"vcpus": "2"`, `"max_swap": 255`, "max_swap", "255", "out of range"},
		{`"vcpus": "2"`, `"quota": -1`, "quota", "-1", "out of range"},
		{`"vcpus": "2"`, `"max_lwps": 0`, "max_lwps", "0", "out of range"},
		{`"vcpus": "2"`, `"cpu_shares": 65536`, "cpu_shares", "65536", "out of range"},
		{`"vcpus": "2"`, `"zfs_io_priority": 1025`, "zfs_io_priority", "1025", "out of range"},
		{`"vcpus": "2"`, `"tags": []`, "tags", "a list", "it is a list"},
		{`"vcpus": "2"`, `"tags": {"a": {}}`, "tags.a", "a mapping", "it is a mapping"},
		{`"vcpus": "2"`, `"tags": {"a": null}`, "tags.a", "null", "it is empty"},
		{`["192.0.2.53"]`, `["192.0.2.530"]`, "resolvers.0", `"192.0.2.530"`, "not an address"},
		{`["192.0.2.53"]`, `"192.0.2.53,x"`, "resolvers.1", `"x"`, "not an address"},
		{`["192.0.2.53"]`, `{}`, "resolvers", "a mapping", "it is a mapping"},
		{`"nic_tag": "admin",`, ``, "nics.0.nic_tag", "", "missing"},
		{`"nic_tag": "admin"`, `"nic_tag": "../x"`, "nics.0.nic_tag", `"../x"`, "not a name"},
		{`"nic_tag": "admin"`, `"nictag": "admin"`, "nics.0.nictag", `"admin"`, "unknown property"},
		{`192.0.2.10`, `192.0.2.999`, "nics.0.ip", `"192.0.2.999"`, "not an address"},
		{`192.0.2.10`, `224.0.0.1`, "nics.0.ip", `"224.0.0.1"`, "no host can have"},
		{`255.255.255.0`, `255.0.255.0`, "nics.0.netmask", `"255.0.255.0"`, "contiguous"},
		{`255.255.255.0`, `24`, "nics.0.netmask", `"24"`, "needs a netmask"},
		{`"netmask": "255.255.255.0",`, ``, "nics.0.netmask", "", "needs a netmask"},
		{`255.255.255.0`, `254.0.0.0`, "nics.0.ip", `"192.0.2.10"`, "length of the prefix"},
		{`"gateway": "192.0.2.1"`, `"gateway": "fe80::1"`, "nics.0.gateway", `"fe80::1"`, "not an IPv4"},
		{`"primary": true`, `"primary": "maybe"`, "nics.0.primary", `"maybe"`, "truth value"},
		{`"primary": true`, `"mac": "02:00:00:00:00"`, "nics.0.mac", `"02:00:00:00:00"`, "not a MAC"},
		{`"primary": true`, `"mtu": 575`, "nics.0.mtu", "575", "out of range"},
		{`"primary": true`, `"mtu": 9001`, "nics.0.mtu", "9001", "out of range"},
		{`"primary": true`, `"vlan_id": 4096`, "nics.0.vlan_id", "4096", "out of range"},
		{`"primary": true`, `"vrrp_vrid": 256`, "nics.0.vrrp_vrid", "256", "out of range"},
		{`"primary": true`, `"ips": ["192.0.2.1"]`, "nics.0.ips.0", `"192.0.2.1"`, "with its length"},
		{`"primary": true`, `"ips": ["10.0.0.1/7"]`, "nics.0.ips.0", `"10.0.0.1/7"`, "length of the prefix"},
		{`"primary": true`, `"ips": ["10.0.0.1/24", "10.0.0.1/16"]`, "nics.0.ips.1", `"10.0.0.1/16"`, "same address"},
		{`"primary": true`, `"ips": ["fd00::1/64", "fd00:0::1/48"]`, "nics.0.ips.1", `"fd00:0::1/48"`, "same address"},
		{`"allowed_ips": [""]`, `"allowed_ips": ["10.0.0"]`, "nics.0.allowed_ips.0", `"10.0.0"`, "not an address"},
		{`"primary": true`, `"blocked_outgoing_ports": [0]`, "nics.0.blocked_outgoing_ports.0", "0", "out of range"},
		{`d8e65ea2-1f3e`, `d8e65ea2-1f3`, "disks.0.image_uuid", `"d8e65ea2-1f3-11e5-8557-6b43e0a88b38"`, "not a UUID"},
		{`"boot": true`, `"size": 100`, "disks.0.size", "100", "determines the size"},
		{`"boot": true`, `"block_size": 768`, "disks.0.block_size", "768", "power of 2"},
		{`"boot": true`, `"block_size": 512`, "disks.0.block_size", "512", "the image determines it"},
		{`"boot": true`, `"path": "/dev/sda"`, "disks.0.path", `"/dev/sda"`, "only a cdrom"},
		{`"boot": true`, `"path": "x.iso", "media": "cdrom"`, "disks.0.path", `"x.iso"`, "not absolute"},
		{`"boot": true`, `"media": "tape"`, "disks.0.media", `"tape"`, "no such value"},
		{`"boot": true,
		"model": "virtio"`, `"model": "nvme"`, "disks.0.model", `"nvme"`, "no such model"},
	} {
		src := strings.Replace(newbox, c.old, c.new, 1)
		if src == newbox {
			t.Fatalf("%s does not occur", c.old)
		}
		_, err := Read("newbox.json", []byte(src))
		p := ProblemsOf(err)
		found := false
		for _, x := range p {
			found = found || x.Path == c.path && x.Value == c.value && strings.Contains(x.Reason, c.reason) && x.Line > 0 &&
				x.Allowed != ""
		}
		if !found || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
}

// All mistakes are reported at once, each with its place.
func TestEveryMistakeAtOnce(t *testing.T) {
	_, err := Read("g.yaml", []byte("brand: kvm\nrm: 1\nvcpus: x\nnics:\n  - {nic_tag: a, mtu: 1}\n"))
	const want = `g.yaml:2:5: rm: 1: unknown property; did you mean "ram"?
g.yaml:3:8: vcpus: "x": it is not a whole number; write at most nine digits
g.yaml:5:23: nics.0.mtu: 1: it is out of range; write 576 to 9000`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(newbox))
	f.Add([]byte("- brand: lx\n- 1\n- nics: x"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, err := Read("f", src); err != nil && len(ProblemsOf(err)) == 0 {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
		}
	})
}
