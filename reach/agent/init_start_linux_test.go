package agent

import (
	"net/netip"
	"testing"

	"bakeoff/base/fault"
)

func TestAddressOf(t *testing.T) {
	usual := netip.MustParsePrefix("10.0.2.15/24")
	for line, want := range map[string]string{
		"console=ttyS0 quiet\n":              "10.0.2.15/24",
		"quiet bakeoff.addr=192.0.2.7/28 x":  "192.0.2.7/28",
		"xbakeoff.addr=192.0.2.7/28":         "10.0.2.15/24",
		"bakeoff.addr=192.0.2.7":             "",
		"bakeoff.addr=":                      "",
		"bakeoff.addr=2001:db8::1/64 quiet ": "",
	} {
		got, err := addressOf(line, usual)
		if want == "" {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: got %v, %v", line, got, err)
			}
			continue
		}
		if err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v; want %s", line, got, err, want)
		}
	}
}
