package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"bakeoff/base/fault"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/network"
)

// A NIC becomes a network in which QEMU plays the gateway, or is refused with the reason.
func TestCards(t *testing.T) {
	card := func(n manifest.NIC) qemu.Card {
		n.MAC = "02:00:00:00:00:01"
		c, err := cardOf(n)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	m := qemu.Machine{Kind: qemu.Q35, Ports: []qemu.Port{}, Cards: []qemu.Card{
		card(manifest.NIC{IPs: []string{"192.0.2.1/29"}, Gateways: []string{"192.0.2.2"}, MTU: 9000}),
		card(manifest.NIC{IPs: []string{"10.0.0.9/8"}, Model: "e1000"}), card(manifest.NIC{IPs: []string{"dhcp"}})}}
	line := strings.Join(m.CommandLine(), " ")
	for _, want := range []string{"user,id=nic0,net=192.0.2.0/29,host=192.0.2.2,dns=192.0.2.3,dhcpstart=192.0.2.1 ",
		"virtio-net-pci,netdev=nic0,mac=02:00:00:00:00:01,host_mtu=9000,romfile= ",
		"user,id=nic1,restrict=on,net=10.0.0.0/8,host=10.0.0.1,dns=10.0.0.2,dhcpstart=10.0.0.9 ",
		"e1000,netdev=nic1,", "user,id=nic2 "} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is missing in %s", want, line)
		}
	}
	for want, n := range map[string]manifest.NIC{"no network card": {Model: "ne2k"},
		"one address": {IPs: []string{"10.0.0.1/24", "10.0.0.2/24"}}, "an IPv4 address": {IPs: []string{"fd00::1/64"}},
		"8 addresses":  {IPs: []string{"10.0.0.1/30"}},
		"same network": {IPs: []string{"10.0.0.1/24"}, Gateways: []string{"10.0.1.1"}},
		"model virtio": {Model: "rtl8139", MTU: 1400}} {
		if _, err := cardOf(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A NIC has a tag of its own where the frames of its network have none at the uplink.
func TestFitVLAN(t *testing.T) {
	for _, x := range []struct {
		in   manifest.Network
		tag  int
		want string
	}{{manifest.Network{Uplink: "e"}, 4094, ""}, {manifest.Network{}, 4095, ""},
		{manifest.Network{Uplink: "e"}, 4095, "no frame at the uplink"},
		{manifest.Network{Uplink: "e", VLAN: 7}, 8, "have the tag 7"}, {manifest.Network{Uplink: "e", VLAN: 7}, 0, ""}} {
		g := manifest.Guest{Brand: manifest.LX, Image: "a", RAM: 64,
			NICs: []manifest.NIC{{NicTag: "n", IPs: []string{"10.0.0.2/24"}, VLAN: x.tag}}}
		manifest.Complete(&g)
		err := Fit(g, func(string) *network.Network { return &network.Network{Network: x.in} }, nil)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v and tag %d: %v", x.in, x.tag, err)
		}
	}
}

// The routers of a group share its MAC address and its addresses.
func TestVRRPIsNoConflict(t *testing.T) {
	s := newStore(t)
	for i, own := range []string{"10.0.0.2/24", "10.0.0.3/24"} {
		g, err := s.Create(t.Context(), manifest.Guest{Brand: manifest.KVM, NICs: []manifest.NIC{
			{NicTag: "a", IPs: []string{own}}, {NicTag: "a", IPs: []string{"10.0.0.1/24"}, VRRPVRID: 7}}}, Boot{}, nil)
		if err != nil || g.NICs[1].MAC != "00:00:5e:00:01:07" {
			t.Errorf("router %d: %+v, %v", i, g, err)
		}
	}
}

// A list is refused before a guest of it is made: for what exists, and for what stands before in it.
func TestConflictsOfAList(t *testing.T) {
	s := newStore(t)
	const uuid, mac = "0a1b2c3d-0000-4000-8000-00000000000a", "02:00:00:00:00:0a"
	first := manifest.Guest{Brand: manifest.KVM, UUID: uuid, VNCPort: 5950}
	if _, err := s.Create(t.Context(), first, Boot{}, nil); err != nil {
		t.Fatal(err)
	}
	nic := func(mac, ip string) []manifest.NIC { return []manifest.NIC{{NicTag: "a", MAC: mac, IPs: []string{ip}}} }
	got, err := s.Conflicts([]manifest.Guest{
		{UUID: uuid}, {VNCPort: 5950, NICs: nic(mac, "10.0.0.2/24")}, {NICs: nic("02:00:00:00:00:0b", "10.0.0.2/16")},
		{NICs: nic(mac, "10.0.0.3/24")}, {NICs: nic("", "10.0.0.4/24")}, {NICs: nic("", "10.0.0.5/24")}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"uuid", "vnc_port", "nics.0.ips", "nics.0.mac", "", ""} {
		if (want == "") != (len(got[i]) == 0) || want != "" && (len(got[i]) != 1 || got[i][0].Path != want) {
			t.Errorf("guest %d: %+v instead of %q", i, got[i], want)
		}
	}
}

// What has no counterpart is refused, all at once.
func TestFit(t *testing.T) {
	for src, want := range map[string][]string{
		`{"brand": "kvm", "vga": "qxl", "cpu_cap": 100, "disks": [{"size": 1, "model": "ide"}]}`: {"vga", "cpu_cap"},
		`{"brand": "lx", "image": "a", "nics": [{"nic_tag": "a"}], "resolvers": "10.0.0.1", "quota": 3}`: {
			"nics.0.nic_tag", "quota"},
		`{"brand": "bhyve", "disks": [{"size": 1, "compression": "lz4"}], "nics": [{"nic_tag": "a", "vlan_id": 3}]}`: {
			"disks.0.compression", "nics.0.vlan_id"},
		`{"brand": "kvm"}`: {"disks"},
		`{"brand": "microvm", "kernel": "k", "disks": [{"media": "cdrom", "path": "/a.iso"}]}`: {"disks.0.media"},
		`{"brand": "docker", "image": "a", "ports": "x"}`:                                      {"ports.0"},
		`{"brand": "docker", "image": "a", "ports": ["8080:80", "80", "81", "8080:81"]}`:       {"ports.3"},
		`{"brand": "docker", "image": "a", "ports": "80", "restart": "always", "ram": 64}`:     nil,
		`{"brand": "kvm", "disks": [{"size": 1}], "quota": 10, "max_lwps": 2000, "ram": 64}`:   nil,
	} {
		guests, err := manifest.Read("f", []byte(src))
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		var paths []string
		for _, p := range manifest.ProblemsOf(Fit(guests[0], noTags, nil)) {
			paths = append(paths, p.Path)
			if p.Reason == "" || p.Allowed == "" {
				t.Errorf("%+v", p)
			}
		}
		slices.Sort(paths)
		slices.Sort(want)
		if !slices.Equal(paths, want) {
			t.Errorf("%s: %q instead of %q", src, paths, want)
		}
	}
}

// cloud-init gets addresses without the words of SmartOS that stand for others.
func TestNetworkOfCloudInit(t *testing.T) {
	b, err := json.Marshal(networkConfig(manifest.Guest{NICs: []manifest.NIC{{IPs: []string{"10.0.0.2/24", "dhcp",
		"addrconf"}}, {IPs: []string{"10.0.0.3/24"}}, {}}}))
	const want = `"net0":{"accept-ra":true,"addresses":["10.0.0.2/24"],"dhcp4":true,"match":{"macaddress":""}},` +
		`"net1":{"addresses":["10.0.0.3/24"],"dhcp4":false,"match":{"macaddress":""}},` +
		`"net2":{"dhcp4":true,"match":{"macaddress":""}}`
	if err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%v: %s", err, b)
	}
}

// Of creates with one address at the same moment, one succeeds. Addresses are compared, not
// texts.
func TestTwoCreatesWithOneAddress(t *testing.T) {
	s := newStore(t)
	texts := []string{"10.0.0.1/8", "10.0.0.1/16", "10.0.0.1/24", "10.0.0.1/25"}
	errs := make([]error, len(texts))
	var wg sync.WaitGroup
	for i, ip := range texts {
		wg.Go(func() {
			_, errs[i] = s.Create(t.Context(), manifest.Guest{Brand: manifest.KVM, NICs: []manifest.NIC{{NicTag: "a",
				IPs: []string{ip}}}}, Boot{}, nil)
		})
	}
	wg.Wait()
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	all, err := s.List()
	if err != nil || len(all) != 1 || len(failed) != len(texts)-1 || all[0].NICs[0].MAC == "" {
		t.Errorf("%d guests, %v, %v", len(all), errors.Join(failed...), err)
	}
	for _, err := range failed {
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "has this address") {
			t.Error(err)
		}
	}
	// An update to an address of another guest is refused, and changes nothing.
	g := create(t, s, "x")
	change := `{"add_nics": [{"nic_tag": "b", "ips": "10.0.0.1/9"}]}`
	if _, err := g.Update(t.Context(), Origin{}, "u", []byte(change)); err == nil ||
		!strings.Contains(err.Error(), "has this address") {
		t.Errorf("update: %v", err)
	}
	if g, err := s.Find(g.UUID); err != nil || len(g.NICs) != 0 {
		t.Errorf("%+v, %v", g, err)
	}
}

// A NIC in a network is refused what that network cannot give it.
func TestFitInNetwork(t *testing.T) {
	tags := (&Store{}).Tags(manifest.Network{Name: "bare"}, manifest.Network{Name: "full", MTU: 1400,
		Subnets: []string{"10.0.0.1/24", "fd00::1/64"}})
	for nic, want := range map[string]string{
		"{nic_tag: full}":                                      "",
		"{nic_tag: full, ips: [dhcp, addrconf]}":               "",
		"{nic_tag: full, ips: 10.0.0.2/24, vlan_id: 7}":        "",
		"{nic_tag: bare, ips: [10.0.0.1/24, 'fd00::1/64']}":    "",
		"{nic_tag: bare, ips: 10.0.0.1/24, dhcp_server: true}": "",
		"{nic_tag: bare}":                                      "nics.0.ips",
		"{nic_tag: bare, ips: addrconf}":                       "nics.0.ips",
		"{nic_tag: full, vlan_id: 7}":                          "nics.0.ips",
		"{nic_tag: full, ips: 10.0.0.1/9}":                     "nics.0.ips",
		"{nic_tag: full, ips: 'fd00::1/48'}":                   "nics.0.ips",
		"{nic_tag: full, mtu: 1500}":                           "nics.0.mtu",
		"{nic_tag: full, allowed_dhcp_cids: 0xabc}":            "nics.0.allowed_dhcp_cids.0",
		"{nic_tag: none, ips: 10.0.0.1/24}":                    "nics.0.nic_tag",
	} {
		guests, err := manifest.Read("f", []byte("{brand: lx, image: a, nics: ["+nic+"]}"))
		if err != nil {
			t.Fatalf("%s: %v", nic, err)
		}
		err = Fit(guests[0], tags, nil)
		found := ""
		if p := manifest.ProblemsOf(err); len(p) > 0 {
			found = p[0].Path
		}
		if found != want {
			t.Errorf("%s: %v", nic, err)
		}
	}
}

func TestFileOfKey(t *testing.T) {
	for key, want := range map[string]string{
		"a": "a", "..": "%2E.", "../../etc/x": "%2E.%2F..%2Fetc%2Fx", "50%": "50%25",
	} {
		if got := fileOfKey(key); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
	// Long keys keep different files, whose names are UTF-8 and not those of other keys.
	begin := "x" + strings.Repeat("ä", 120)
	names := map[string]bool{}
	for _, key := range []string{begin, begin + "1", begin + "2", strings.Repeat("k", maxKeyName),
		strings.Repeat("k", maxKeyName) + "1", strings.Repeat("k", maxKeyName) + "2", strings.Repeat("k", 1000)} {
		got := fileOfKey(key)
		if names[got] || len(got) > 255 || !utf8.ValidString(got) {
			t.Errorf("%s: %s", key, got)
		}
		names[got] = true
		if err := os.WriteFile(filepath.Join(t.TempDir(), got), nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	if got := fileOfKey(strings.Repeat("k", 201)); got !=
		strings.Repeat("k", 200)+"~ebf0ead0a3b837bc388d6a36c93833ff" {
		t.Errorf("%s", got)
	}
}

// Limits that nothing sets are refused, for guests and for contenders.
func TestFitLimits(t *testing.T) {
	const limits = `"cpu_cap": 50, "cpu_shares": 50, "max_lwps": 50, "max_swap": 4000`
	s := newStore(t)
	for src, want := range map[string][2]string{ // of a guest, and of a contender
		`{"brand": "docker", "image": "a", ` + limits + `}`: {"[]", "[cpu_shares max_lwps max_swap]"},
		`{"brand": "kvm", "disks": [{"size": 1}], ` + limits + `}`: {"[max_lwps max_swap]",
			"[cpu_cap cpu_shares max_lwps max_swap]"},
		`{"brand": "microvm", "driver": "firecracker", "kernel": "k", ` + limits + `}`: {
			"[cpu_cap cpu_shares max_lwps max_swap]", "[cpu_cap cpu_shares max_lwps max_swap]"},
		`{"brand": "docker", "image": "a", "ram": 64, "max_swap": 256}`: {"[]", "[]"},
	} {
		for i, storage := range []Storage{s, nil} {
			var paths []string
			for _, p := range manifest.ProblemsOf(Fit(read(t, src), noTags, storage)) {
				paths = append(paths, p.Path)
			}
			slices.Sort(paths)
			if fmt.Sprint(paths) != want[i] {
				t.Errorf("%s: %q instead of %s", src, paths, want[i])
			}
		}
	}
}
