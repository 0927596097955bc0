package podman

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/engine"
)

func TestDriver(t *testing.T) {
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"runtime": "runc"}})
}

// The engine's own exec keeps the contract of a connection, too.
func TestEngineExec(t *testing.T) {
	not := map[string]string{}
	for _, test := range []string{"life", "side by side", "limits", "volumes", "network", "rest", "cancelled", "crashed",
		"tuning"} {
		not[test] = "the same with either way in"
	}
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"runtime": "runc", "exec": "engine"},
		Name: "exec", Transfer: 1 << 20, Without: not})
}

// On each network that this Podman has, the load generator reaches two containers at the same
// port. Nothing remains on the host, not even of a controller that was killed.
func TestNetworks(t *testing.T) {
	before := drivertest.HostNetwork(t.Context())
	for _, n := range []engine.Network{engine.HostNet, engine.Bridge, engine.Published, engine.Slirp, engine.Pasta} {
		t.Run(string(n), func(t *testing.T) {
			not := map[string]string{}
			for _, test := range []string{"life", "contract", "side by side", "limits", "volumes", "rest", "cancelled"} {
				not[test] = "the same on every network"
			}
			if n != engine.Published {
				not["crashed"], not["tuning"] = "as with published ports", "as with published ports"
			}
			test, _, _ := strings.Cut(t.Name(), "/")
			drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"runtime": "runc", "network": string(n)},
				Name: "n" + string(n)[:2], Engine: true, Without: not, Victim: func() *exec.Cmd {
					return exec.Command(os.Args[0], "-test.run=^"+test+"$/^"+string(n)+"$")
				}})
		})
	}
	if drivertest.Victim() || testing.Short() {
		return
	}
	if after := drivertest.HostNetwork(t.Context()); after != before {
		t.Errorf("the host's network was\n%s\nand is\n%s", before, after)
	}
}

func BenchmarkCreate(b *testing.B) { drivertest.Bench(b, Driver{}, drivertest.Options{}) }

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{"4.3.1": false, "4.4.0": true, "5.0": true, "3.9": false, "": false} {
		if got := atLeast(version, 4, 4); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

func TestMayRaise(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tx\nCapEff:\t000001ffffffffff\n": true,
		"Name:\tx\nCapEff:\t000001fffeffffff\n": false,
		"Name:\tx\n":                            false,
		"CapEff:\tzz\n":                         false,
	} {
		if got := mayRaise(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzHardLimit(f *testing.F) {
	f.Add(
		"Limit                     Soft Limit           Hard Limit           Units     \nMax open files            " +
			"1024  " +
			"               20000                files     \n",
	)
	f.Add("Max open files            1024                 unlimited            files     \n")
	f.Add("Max open files -1 -1\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := hardLimit(text, "Max open files"); ok && !strings.Contains(text, "Max open files") || !ok && n != 0 {
			t.Errorf("%q gave %d, %v", text, n, ok)
		}
	})
}

func TestHardLimit(t *testing.T) {
	text := "Max processes             96343                96344                processes \nMax open files            " +
		"1024                 unlimited            files     \n"
	if n, ok := hardLimit(text, "Max processes"); n != 96344 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := hardLimit(text, "Max open files"); ok {
		t.Errorf("unlimited is %d", n)
	}
}
