package plan

import (
	"bytes"
	"testing"

	"bakeoff/lab/manifest"
)

// A plan on hosts of a pool follows from the lab file and from the addresses that it
// registered, so bakeoff verify accepts the runs of a queue.
func TestAddressesOfAPoolAreRegistered(t *testing.T) {
	for _, address := range []string{"local", "root@bk1"} {
		pooled := func() *manifest.Lab {
			l := lab(t, "{}")
			l.Hosts = map[string]manifest.Host{"box": {Pool: "epyc", Count: 2}}
			for i := range l.Contenders {
				l.Contenders[i].Host = "box"
			}
			return l
		}
		bound := pooled()
		if err := bound.Bind("box", address); err != nil {
			t.Fatal(err)
		}
		p, text := decoded(t, bound)
		again := pooled()
		p.Record(again)
		if _, other := decoded(t, again); !bytes.Equal(other, text) {
			t.Errorf("%s: the plan does not follow from what it records:\n%s\n%s", address, text, other)
		}
	}
}
