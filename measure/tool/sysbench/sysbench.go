// Package sysbench is the tool sysbench, its tests cpu and memory.
//
// What to distrust in it:
//
//   - The event of the CPU test is a loop whose result is not used. A compiler
//     that may assume a pure sqrt removes it, and millions of "events" a second
//     are what is left. Parse knows how many divisions an event has, and calls a
//     trial failed whose events are faster than any processor divides.
//   - Events of two builds are two different things: the fingerprint has the
//     version and the hash of the program.
//   - The default memory block of 1 KiB measures the loop around it. The block
//     is always given, and 1 MiB here unless the lab file says otherwise.
//   - --test= is deprecated: the test's name is an argument.
package sysbench

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
)

// New returns the tool.
func New() tool.Tool { return sysbench{} }

type sysbench struct{}

func (sysbench) Doc() tool.Doc {
	return tool.Doc{
		Name: "sysbench", Program: "sysbench", VersionArgs: []string{"--version"},
		Summary: "sysbench as the platform ships it: its CPU test (primes) and its memory test",
		Packages: map[string][]string{
			"debian": {"sysbench"}, "alpine": {"sysbench"}, "freebsd": {"sysbench"},
			"dragonfly": {"sysbench"}, "netbsd": {"sysbench"}, "smartos": {"sysbench"},
		},
		Metrics: []sample.Metric{
			{Name: "throughput", Unit: "op/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio,
				Doc: "events a second: loops over all numbers below max-prime, or memory blocks; of one build only"},
			{Name: "bandwidth", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Doc: "memory transferred, blocks of the stated size"},
			{Name: "latency-p95", Unit: "s", Better: sample.Lower, Scale: sample.Ratio, Doc: "95th percentile of an event, in steps of 10 µs"},
		},
		Params: []param.Spec{
			{Name: "test", Kind: param.Text, Default: "cpu", Enum: []string{"cpu", "memory"}, Doc: "test"},
			{Name: "max-prime", Kind: param.Int, Default: "20000", Min: 10, Max: 10e6, Doc: "cpu: upper limit of the prime numbers of one event"},
			{Name: "block", Kind: param.Size, Default: "1MiB", Min: 8, Max: 1 << 30, Doc: "memory: size of a block"},
			{Name: "operation", Kind: param.Text, Default: "write", Enum: []string{"read", "write"}, Doc: "memory: what is done with a block"},
			{Name: "access", Kind: param.Text, Default: "seq", Enum: []string{"seq", "rnd"}, Doc: "memory: sequential or random"},
			{Name: "scope", Kind: param.Text, Default: "global", Enum: []string{"global", "local"}, Doc: "memory: one block for all threads, or one each"},
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 1024, Doc: "threads"},
			{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the test, whole seconds"},
		},
		State: "carried", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return seconds(p) + 200*time.Millisecond },
		Parser: 1,
		Source: []string{"sysbench(1), https://github.com/akopytov/sysbench"},
	}
}

// seconds is the length of the test: sysbench takes whole seconds.
func seconds(p param.Values) time.Duration {
	return time.Duration(math.Ceil(p.Duration("time").Seconds())) * time.Second
}

func (sysbench) Command(p param.Values, _ tool.Place) (tool.Command, error) {
	if p.Duration("time") <= 0 {
		return tool.Command{}, fault.New(fault.Invalid, "time: %s is no length of a test; write 1s", p.Text("time"))
	}
	argv := []string{"sysbench", p.Text("test"),
		"--threads=" + p.Text("threads"), "--time=" + strconv.Itoa(int(seconds(p)/time.Second)), "--events=0"}
	if p.Text("test") == "cpu" {
		argv = append(argv, "--cpu-max-prime="+p.Text("max-prime"))
	} else {
		argv = append(argv,
			"--memory-block-size="+strconv.FormatInt(p.Bytes("block"), 10),
			"--memory-total-size=0", // no limit: the time is
			"--memory-oper="+p.Text("operation"), "--memory-access-mode="+p.Text("access"), "--memory-scope="+p.Text("scope"))
	}
	return tool.Command{Argv: append(argv, "run")}, nil
}

var version = regexp.MustCompile(`^sysbench (\d+\.\d+\.\d+)\S*`)

func (sysbench) Version(out []byte) (map[string]string, error) {
	m := version.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("%.60q is no version of sysbench 1.0 or later", out)
	}
	return map[string]string{"version": string(m[1])}, nil
}

func (s sysbench) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	text := tool.Text(out.Stdout)
	if err := echoed(text, p); err != nil {
		return r, err
	}
	took, err := text.Number("total time:", "s")
	if err != nil {
		return r, err
	}
	if r.Work, err = text.Number("total number of events:", ""); err != nil {
		return r, err
	}
	if !(took > 0) {
		return r, fmt.Errorf("total time is %g s", took)
	}
	if r.Work <= 0 {
		return r, fault.WithFix(fault.New(fault.Subject, "no event was finished in %g s", took), "give it more time")
	}
	if p.Text("test") == "cpu" {
		if err := possible(r.Work, took, p); err != nil {
			return r, err
		}
	} else {
		r.Add(s.Doc(), "bandwidth", r.Work*float64(p.Bytes("block"))/took)
	}
	r.Add(s.Doc(), "throughput", r.Work/took)
	// In milliseconds of two decimals: 0.00 is below what it can tell.
	if p95, err := text.Number("95th percentile:", ""); err != nil {
		return r, err
	} else if p95 > 0 {
		r.Add(s.Doc(), "latency-p95", p95/1e3)
	}
	return r, nil
}

// echoed checks that the output is of the test that was asked for.
func echoed(text tool.Text, p param.Values) error {
	want := map[string]string{"Number of threads:": p.Text("threads")}
	if p.Text("test") == "cpu" {
		want["Prime numbers limit:"] = p.Text("max-prime")
	} else {
		// sysbench shows whole KiB and cuts what is less.
		want["block size:"] = fmt.Sprintf("%dKiB", p.Bytes("block")>>10)
		want["operation:"] = p.Text("operation")
		want["scope:"] = p.Text("scope")
	}
	for label, w := range want {
		got, err := text.Line(label)
		if err != nil {
			return err
		}
		if !strings.EqualFold(got, w) {
			return fmt.Errorf("%s %.40q, and %s was asked for", label, got, w)
		}
	}
	return nil
}

// divisionsPerSecond is more than one thread of any processor does: one
// division in a cycle at 10 GHz.
const divisionsPerSecond = 10e9

// possible refuses events that were too fast to have been done.
func possible(events, took float64, p param.Values) error {
	n := divisions(p.Int("max-prime"))
	if did := events * n / took / float64(p.Int("threads")); did > divisionsPerSecond {
		return fault.WithFix(
			fault.New(fault.Subject, "%.3g divisions a second and thread are more than a processor does: this build does not do its work (an optimising compiler removed the loop)", did),
			"measure the workload cpu instead, which verifies its answer")
	}
	return nil
}

// divisions returns how many divisions an event with this limit has, at least:
// sysbench divides every number from 3 to the limit by 2, 3, … up to its root
// until one divides it. Every number has one division, and a prime has all; of
// the primes there are n/ln n, more than x/ln x for x ≥ 17 (Rosser and
// Schoenfeld 1962), and those above n/2 have √(n/2) divisions each.
func divisions(limit int64) float64 {
	n := float64(limit)
	if n < 100 {
		return n
	}
	pi := func(x float64) float64 { return x / math.Log(x) }
	upper := 1.25506 * pi(n/2) // at most, below n/2
	return n + max(0, pi(n)-upper)*math.Sqrt(n/2)
}
