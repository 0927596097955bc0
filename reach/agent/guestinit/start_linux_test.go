package guestinit

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

// The word bakeoff.port on the kernel's command line replaces the port of the configuration and
// adds the modules of the socket, if it is a socket to the hypervisor.
func TestReadLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cmdline")
	for line, want := range map[string]string{
		"console=ttyS0 quiet\n":                    "bakeoff [/a]",
		"console=ttyS0 bakeoff.port=vsock:7 quiet": "vsock:7 [/a /b /c]",
		"bakeoff.port=/dev/ttyS1":                  "bakeoff [/a]",
	} {
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		in := &initProcess{config: wire.InitConfig{Port: "bakeoff", Modules: []string{"/a"},
			VsockModules: []string{"/b", "/c"}}}
		err := in.readLine(file)
		if got := fmt.Sprint(in.config.Port, " ", in.config.Modules); err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", line, got, err, want)
		}
	}
}

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

// Shared folders are words of the kernel's command line, and need modules.
func TestReadShare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cmdline")
	for line, want := range map[string]string{
		"quiet":                          "[] [/a]",
		"bakeoff.share=share0:%2Fdata x": "[{share0 /data false}] [/a /s]",
		"bakeoff.share=a:%2Fa+b%3Ac:ro bakeoff.share=b:/b": "[{a /a b:c true} {b /b false}] [/a /s]",
		"bakeoff.share=a:%2F":                              "",
		"bakeoff.share=a":                                  "",
		"bakeoff.share=:/a":                                "",
		"bakeoff.share=a:b":                                "",
		"bakeoff.share=a:/b:rw":                            "",
	} {
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		in := &initProcess{config: wire.InitConfig{Modules: []string{"/a"}, ShareModules: []string{"/s"}}}
		err := in.readLine(file)
		if got := fmt.Sprint(in.shares, " ", in.config.Modules); want != "" && (err != nil || got != want) {
			t.Errorf("%q: got %s, %v", line, got, err)
		}
		if want == "" && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// The router and the name servers of a service are words of the kernel's command line.
func TestOutwardOf(t *testing.T) {
	for line, want := range map[string]string{
		"quiet":                    "invalid IP []",
		"bakeoff.gateway=10.0.0.1": "10.0.0.1 []",
		"bakeoff.resolvers=10.0.0.1,fd00::1 bakeoff.gateway=10.0.0.1 x": "10.0.0.1 [10.0.0.1 fd00::1]",
		"bakeoff.gateway=fd00::1": "",
		"bakeoff.gateway=":        "",
		"bakeoff.resolvers=a":     "",
	} {
		gateway, resolvers, err := outwardOf(line)
		if got := fmt.Sprint(gateway, " ", resolvers); want != "" && (got != want || err != nil) {
			t.Errorf("%q: got %s, %v", line, got, err)
		}
		if want == "" && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
