package probe

import (
	"slices"
	"testing"

	"bakeoff/base/facts"
)

const procNetDev = `Inter-|   Receive  |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:  108560     714    0    0    0     0          0         0   108560     714    0    0    0
  eth0:18446744073709551615 1 0 0 0 0 0 0 77 1 0 0 0 0 0 0
  idle:       0       0    0    0    0     0          0         0        0       0    0    0    0
`

func TestInterfacesOfLinux(t *testing.T) {
	want := []facts.Interface{{Name: "lo", ReceivedBytes: 108560, SentBytes: 108560},
		{Name: "eth0", ReceivedBytes: 18446744073709551615, SentBytes: 77}}
	if got := parseInterfaces(procNetDev); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func FuzzInterfaces(f *testing.F) {
	f.Add(procNetDev)
	f.Add("eth0: 1 2 3\n: 1 2 3 4 5 6 7 8 9\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := parseInterfaces(text)
		if len(got) > maxInterfaces {
			t.Errorf("%d interfaces", len(got))
		}
		for _, i := range got {
			if i.Name == "" {
				t.Errorf("%+v", i)
			}
		}
	})
}
