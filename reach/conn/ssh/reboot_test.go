package ssh

import (
	"testing"

	"bakeoff/base/fault"
)

// A machine behind another one has no address that the controller could reach.
func TestEndpoint(t *testing.T) {
	name, port, err := endpoint("host box\nuser root\nhostname 192.0.2.7\nport 2222\nproxyjump none\n")
	if name != "192.0.2.7" || port != 2222 || err != nil {
		t.Errorf("%s, %d, %v", name, port, err)
	}
	for text, kind := range map[string]fault.Kind{
		"hostname a\nport 22\nproxyjump gate\n":             fault.Unsupported,
		"hostname a\nport 22\nproxycommand nc gate %h %p\n": fault.Unsupported,
		"hostname a\nport 65536\n":                          fault.Lab,
		"hostname a\nport 0\n":                              fault.Lab,
		"hostname a\n":                                      fault.Lab,
		"port 22\n":                                         fault.Lab,
		"":                                                  fault.Lab,
	} {
		if name, port, err := endpoint(text); !fault.Is(err, kind) {
			t.Errorf("%q: %s, %d, %v", text, name, port, err)
		}
	}
}

func FuzzEndpoint(f *testing.F) {
	f.Add("hostname 192.0.2.7\nport 2222\nproxyjump none\n")
	f.Fuzz(func(t *testing.T, text string) {
		if name, port, err := endpoint(text); err == nil && (name == "" || port == 0) {
			t.Errorf("%q: %q, %d", text, name, port)
		}
	})
}
