package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bakeoff/conn/local"
	"bakeoff/driver"
	"bakeoff/unit"
)

// Bench measures how long environments of drv take to come, until they have
// answered, and to go: medians in milliseconds.
func Bench(b *testing.B, drv driver.Driver, o Options) {
	if a := drv.Check(b.Context(), local.Conn{}, o.Options); !a.OK {
		b.Skipf("needs: %s; %s", a.Reason, a.Fix)
	}
	s := &suite{tb: b, drv: drv, o: o, host: local.Conn{}}
	s.prepare()
	var create, closing []time.Duration
	for i := 0; b.Loop(); i++ {
		dir := filepath.Join(s.dir, fmt.Sprintf("bench-%d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		in, err := drv.Create(b.Context(), s.host, driver.Spec{Label: s.label(fmt.Sprint(i)), Name: "bench", Dir: dir, CPUs: 1, CPUSet: []int{0},
			Memory: 256 * unit.MiB, Image: s.o.Image, Agent: s.agent, Options: o.Options})
		if err != nil {
			b.Fatal(err)
		}
		up := time.Now()
		if err := in.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		create, closing = append(create, up.Sub(start)), append(closing, time.Since(up))
	}
	b.ReportMetric(median(create), "create-ms")
	b.ReportMetric(median(closing), "close-ms")
	b.ReportMetric(0, "ns/op") // the loop's own time says nothing more
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}
