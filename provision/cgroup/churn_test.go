package cgroup

import (
	"fmt"
	"sync"
	"testing"

	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Several controllers make and remove groups on one host, near and far, and
// each that leaves last takes the common parent with it: nobody fails by what
// the others do.
func TestComingAndGoing(t *testing.T) {
	l := real(t, ours+"-churn", Limits{}).layout
	far := struct{ conn.Conn }{local.Conn{}}
	// Without the first group the parent comes and goes with the others.
	if err := (&Group{host: local.Conn{}, files: local.Conn{}, layout: l, label: ours + "-churn",
		name: parent + "/" + ours + "-churn"}).Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	var all sync.WaitGroup
	for i, host := range []conn.Conn{local.Conn{}, local.Conn{}, far, far} {
		all.Go(func() {
			label, each := fmt.Sprintf("%s-churn-%d", ours, i), rounds
			if i > 1 {
				each = rounds / 10 // a process for each access
			}
			for n := range each {
				g, err := l.Create(t.Context(), host, label, Limits{CPUSet: []int{0}, Memory: 64 * unit.MiB})
				if err != nil {
					t.Errorf("%s, round %d: create: %v", label, n, err)
					return
				}
				if found, err := l.Find(t.Context(), host, label); err != nil || len(found) == 0 {
					t.Errorf("%s, round %d: found %v, %v", label, n, found, err)
				}
				if err := g.Remove(t.Context()); err != nil {
					t.Errorf("%s, round %d: remove: %v", label, n, err)
					return
				}
				if found, err := l.Find(t.Context(), host, label); err != nil || len(found) > 0 {
					t.Errorf("%s, round %d: left %v, %v", label, n, found, err)
				}
			}
		})
	}
	all.Wait()
}
