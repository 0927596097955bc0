package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Create creates one environment of drv for a driver's own test, and closes it
// with the test. It skips if Check fails, and with -short.
func Create[U suite.GoTest[U]](t U, drv driver.Driver, o Options) driver.Instance {
	t.Helper()
	if suite.Short() {
		t.Skip("makes real environments: not with -short")
	}
	if a := drv.Check(t.Context(), local.Conn{}, o.Options); !a.OK {
		t.Skipf("needs: %s; %s", a.Reason, a.Fix)
	}
	o.Memory = cmp.Or(o.Memory, 96*unit.MiB)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	s := &runner{T: suite.Under(t), drv: drv, o: o, host: local.Conn{}}
	s.prepare()
	return s.create(s.spec("one"))
}

// Filter tests the option filter of drv: what is executed inside has the filter of system calls
// that the option names. It also has the bounds on capabilities of the container, not those of
// whoever asked for it: CAP_SYS_MODULE is one that no such container has.
func Filter[U suite.GoTest[U]](t U, drv driver.Driver) {
	for filter, want := range map[string]string{"on": "Seccomp:\t2\n", "off": "Seccomp:\t0\n"} {
		t.Run(filter, func(t U) {
			in := Create(t, drv, Options{Options: param.Values{"filter": filter}, Name: filter})
			status, err := conn.Output(t.Context(), in, "cat", "/proc/self/status")
			if err != nil || !strings.Contains(string(status), want) {
				t.Errorf("want %q, %v: %s", want, err, status)
			}
			exit, err := in.Exec(t.Context(), conn.Command("sh", "-c",
				`b=$(sed -n 's/^CapBnd:.//p' /proc/self/status); test $((0x$b >> 16 & 1)) = 0`))
			if err != nil || !exit.OK() {
				t.Errorf("the bounds on capabilities are not the container's: %v, %v", exit, err)
			}
		})
	}
}

// Benchmark is the part of testing.B that Bench needs.
type Benchmark interface {
	suite.Reporter
	Loop() bool
	ReportMetric(value float64, unit string)
}

// Bench measures how long environments of drv take to create, until they
// answer, and to close: medians in milliseconds.
func Bench(b Benchmark, drv driver.Driver, o Options) {
	if a := drv.Check(b.Context(), local.Conn{}, o.Options); !a.OK {
		b.Skipf("needs: %s; %s", a.Reason, a.Fix)
	}
	s := &runner{T: benchmark{b}, drv: drv, o: o, host: local.Conn{}}
	s.prepare()
	var create, closing []time.Duration
	for i := 0; b.Loop(); i++ {
		dir := filepath.Join(s.dir, fmt.Sprintf("bench-%d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		in, err := drv.Create(b.Context(), s.host, driver.Spec{Label: s.label(fmt.Sprint(i)), Name: "bench", Dir: dir,
			CPUs: 1, CPUSet: []int{0},
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

// benchmark is a benchmark as a suite's T, without subtests.
type benchmark struct{ Benchmark }

func (benchmark) Run(string, func(suite.T)) bool { panic("a benchmark runs no tests") }
func (benchmark) Short() bool                    { return suite.Short() }
