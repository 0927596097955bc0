package manifest

import (
	"slices"
	"testing"
)

// A manifest describes networks between guests. Each mistake has its path and what is allowed.
func TestNetworks(t *testing.T) {
	d, err := ReadAll("f", []byte(`
- network: back
  subnet: 10.0.0.0/24, fd00:1::/64
- {brand: docker, image: a, nics: [{nic_tag: back}]}
- {network: front, subnet: [10.1.0.254/24], nat: "true", uplink: eth0, mtu: "1400"}
`))
	if err != nil || len(d.Guests) != 1 || len(d.Networks) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	if b, f := d.Networks[0], d.Networks[1]; !slices.Equal(b.Subnets, []string{"10.0.0.1/24", "fd00:1::1/64"}) ||
		!slices.Equal(f.Subnets, []string{"10.1.0.254/24"}) || !f.NAT || f.MTU != 1400 {
		t.Errorf("%+v", d.Networks)
	}
	for src, want := range map[string][]string{
		"{network: 'a b'}":                                        {"network"},
		"{network: a, subnet: 10.0.0.1}":                          {"subnet.0"},
		"{network: a, subnet: 127.0.0.0/8}":                       {"subnet.0"},
		"{network: a, subnet: '10.0.0.0/31, 224.0.0.0/24'}":       {"subnet.0", "subnet.1"},
		"{network: a, subnet: '10.0.0.0/24, 10.1.0.0/24'}":        {"subnet.1"},
		"{network: a, nat: true}":                                 {"nat"},
		"{network: a, nat: true, uplink: eth0}":                   {"nat"},
		"{network: a, uplink: 'x;y'}":                             {"uplink"},
		"{network: a, vlan_id: 7}":                                {"vlan_id"},
		"{network: a, uplink: e, vlan_id: 4095}":                  {"vlan_id"},
		"{network: a, mtu: 100}":                                  {"mtu"},
		"{network: a, subnet: 'fd00::/64', mtu: 1000}":            {"mtu"},
		"{network: a, subnt: 10.0.0.0/24}":                        {"subnt"},
		"[{network: a}, {network: a, subnet: 10.0.0.0/24}]":       {"1.network"},
		"[{network: a, mtu: x}, {network: b, subnet: [a, b, c]}]": {"0.mtu", "1.subnet.0", "1.subnet.1", "1.subnet.2"},
	} {
		_, err := ReadAll("f", []byte(src))
		var paths []string
		for _, p := range ProblemsOf(err) {
			paths = append(paths, p.Path)
			if p.Reason == "" || p.Allowed == "" || p.Line == 0 {
				t.Errorf("%s: %+v", src, p)
			}
		}
		if !slices.Equal(paths, want) {
			t.Errorf("%s: %q instead of %q", src, paths, want)
		}
	}
}

// A NIC of a virtual router speaks with an address of another NIC.
func TestVRRP(t *testing.T) {
	for nics, want := range map[string]string{
		"{nic_tag: a, ips: 10.0.0.2/24}, {nic_tag: a, ips: 10.0.0.1/24, vrrp_vrid: 7, vrrp_primary_ip: 10.0.0.2}": "",
		"{nic_tag: a, ips: 10.0.0.2/24}, {nic_tag: a, vrrp_vrid: 7, vrrp_primary_ip: 10.0.0.3}": "nics.1." +
			"vrrp_primary_ip",
		"{nic_tag: a, vrrp_primary_ip: 10.0.0.3}":                             "nics.0.vrrp_primary_ip",
		"{nic_tag: a, ips: 10.0.0.2/24, vrrp_vrid: 7}":                        "nics.0.vrrp_primary_ip",
		"{nic_tag: a, ips: 10.0.0.2/24, vrrp_vrid: 300, vrrp_primary_ip: ''}": "nics.0.vrrp_vrid",
	} {
		_, err := Read("f", []byte("{brand: lx, image: a, nics: ["+nics+"]}"))
		found := ""
		if p := ProblemsOf(err); len(p) > 0 {
			found = p[0].Path
		}
		if found != want {
			t.Errorf("%s: %v", nics, err)
		}
	}
}
