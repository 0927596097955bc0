package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// Load reaches bare machines over their own network, without an uplink, and never together
// with contenders that have one.
func TestGeneratorOfBareMachines(t *testing.T) {
	cat := catalogue()
	cat.Drivers = append(cat.Drivers, DriverEntry{Name: "bare", Summary: "a machine", Whole: true})
	const lab = `schema: bakeoff/lab/v1
name: bare
hosts: {a: {ssh: a%s}, b: {ssh: b}, c: {ssh: c}}
generator: c
contenders:
  - {name: one, driver: bare, host: a}
  - {name: two, driver: %s, host: %s}
baseline: one
cells: [{name: x, workload: crypto, params: {algorithm: sha256}, primary: true}]
`
	for _, tt := range []struct{ address, driver, host, says string }{
		{"", "bare", "b", ""},
		{", address: 192.0.2.7", "bare", "b", ""},
		{`, address: "2001:db8::7"`, "bare", "b", ""},
		{", address: box.example", "bare", "b", "not the address of a machine"},
		{", address: 0.0.0.0", "bare", "b", "not the address of a machine"},
		{"", "bare", "c", "on the host that generates its load"},
		{"", "host", "b", "the comparison would measure two different links"},
	} {
		l, err := Parse("lab.yaml", []byte(fmt.Sprintf(lab, tt.address, tt.driver, tt.host)), cat, "")
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v", tt, err)
		}
		if err == nil && tt.address == ", address: 192.0.2.7" && l.Hosts["a"].Address != "192.0.2.7" {
			t.Errorf("the address is %q", l.Hosts["a"].Address)
		}
	}
}
