package podman

import (
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/provision/driver/drivertest"
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

func BenchmarkCreate(b *testing.B) { drivertest.Bench(b, Driver{}, drivertest.Options{}) }

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
	f.Add("Limit                     Soft Limit           Hard Limit           Units     \nMax open files            " +
		"1024  " +
		"               20000                files     \n")
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
