package cgroup

import (
	"path"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// A program that wants more than its quota is held back: the kernel counts it.
func TestQuota(t *testing.T) {
	g := real(t, ours+"-quota", Limits{CPUSet: []int{0}, Quota: 0.1})
	if why := g.Limits().NotEnforced["quota"]; why != "" {
		t.Skip("needs the controller cpu:", why)
	}
	if q := g.Limits().Quota; q == nil || *q != 0.1 {
		t.Errorf("limits say %v", q)
	}
	start(t, g, "while :; do :; done")
	dir := g.v1Dir("cpu")
	if dir == "" {
		dir = g.v2Dir()
	}
	until(t, "the kernel to hold it back", func() bool {
		b, err := local.Conn{}.ReadFile(t.Context(), path.Join(dir, "cpu.stat"))
		if err != nil {
			t.Fatal(err)
		}
		n := fieldOf(string(b), "nr_throttled")
		return n != "" && n != "0"
	})
}

func TestQuotaThatCannotBe(t *testing.T) {
	for _, quota := range []float64{-1, 0.001, 1e9} {
		l := Layout{V2: t.TempDir(), V2Controllers: []string{"cpu"}}
		if _, err := l.Create(t.Context(), &fakeV2{Conn: local.Conn{}, root: l.V2}, "x",
			Limits{Quota: quota}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", quota, err)
		}
	}
	l := Layout{V2: t.TempDir()}
	g, err := l.Create(t.Context(), &fakeV2{Conn: local.Conn{}, root: l.V2}, "x", Limits{Quota: 1})
	if err != nil || g.Limits().Quota != nil || !strings.Contains(g.Limits().NotEnforced["quota"], "cpu") {
		t.Errorf("without the controller: %+v, %v", g.Limits(), err)
	}
}
