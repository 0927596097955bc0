package linux

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot/boottest"
)

func TestLinux(t *testing.T) { boottest.Run(t, New()) }

// tree lists the spans of a recording with their depth.
func tree(r bootmodel.Recording) string {
	var b strings.Builder
	for i, s := range r.Spans {
		open := ""
		if s.Open {
			open = " open"
		}
		fmt.Fprintf(&b, "%s%s %d-%d%s on %s\n", strings.Repeat("  ", len(r.Path(i))-1), s.Label(), s.Start, s.End, open,
			r.Tracks[s.Track].Name)
	}
	return b.String()
}

func read(t *testing.T, text string) bootmodel.Recording {
	t.Helper()
	r, err := New().Read("x", []byte(text))
	boottest.Check(t, New(), "x", r, err)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

const log = `[    0.000000] Linux version 6.1.0
[    0.000000] Command line: console=ttyS0 quiet loglevel=8 initcall_debug
[    0.001000] tsc: Fast TSC calibration failed
[    0.004000] calling  a_init+0x0/0x10 @ 0
[    0.009000] initcall a_init+0x0/0x10 returned 0 after 4000 usecs
[    0.009005] calling  b_init+0x0/0x10 @ 1
[    0.009100] probe of inner returned 0 after 50 usecs
[    0.009200] something of b
[    0.009300] probe of outer:1 returned 19 after 280 usecs
[    0.009400] initcall b_init+0x0/0x10 returned -19 after 295 usecs
[    0.012000] calling  c_init+0x0/0x10 @ 1
[    0.014500] initcall c_init+0x0/0x10 returned 0 after 500 usecs
[    0.014501] Freeing unused memory: 4K
[    0.015000] Run /init as init process
[    0.015500] calling  m_init+0x0/0x1000 [virtio] @ 52
[    0.015600] initcall m_init+0x0/0x1000 [virtio] returned 0 after 99 usecs
[    0.016000] calling  n_init+0x0/0x1000 [late] @ 53
[    0.017000] probe of serio0 returned 0 after 9000 usecs
`

func TestInitcallsNestProbesAndOutput(t *testing.T) {
	expect(t, tree(read(t, log)), `
kernel 0-15000 on kernel
  Command line console=ttyS0 quiet loglevel=8 initcall_debug 0-1000 on kernel
  tsc Fast TSC calibration failed 1000-4000 on kernel
  a_init 4000-9000 on kernel
  b_init returned -19 9005-9400 on kernel
    printk 9005-9020 on kernel
    probe outer:1 returned 19 9020-9300 on kernel
      probe inner 9050-9100 on kernel
  printk 9400-12000 on kernel
  c_init 12000-14500 on kernel
    printk 12000-14000 on kernel
  Freeing unused memory 4K 14501-15000 on kernel
m_init virtio 15500-15600 on initcalls of 52
n_init late 16000-17000 open on initcalls of 53
probe serio0 8000-17000 on other probes 1
`)
}

const asyncLog = `[    0.000000] Linux version 6.12.0
[    0.000000] Command line: initcall_debug loglevel=8
[    0.100000] calling  acpi_init+0x0/0x120 @ 1
[    0.110000] calling  1_async_port_probe+0x0/0x50 [libata] @ 33
[    0.150000] initcall acpi_init+0x0/0x120 returned 0 after 49995 usecs
[    0.310000] initcall 1_async_port_probe+0x0/0x50 [libata] returned after 195312 usecs
[    0.600000] Run /init as init process
`

// The line of an asynchronous call has no result.
func TestAsynchronousCallsEnd(t *testing.T) {
	expect(t, tree(read(t, asyncLog)), `
kernel 0-600000 on kernel
  Command line initcall_debug loglevel=8 0-100000 on kernel
  acpi_init 100000-150000 on kernel
async_port_probe libata 110000-310000 on initcalls of 33
`)
}

// Two asynchronous calls of a function end by their numbers, which are not part of the name.
func TestTwoAsynchronousCallsOfAFunction(t *testing.T) {
	expect(t, tree(read(t, `[    0.000000] Linux version 6.12.0
[    0.100000] calling  7_probe+0x0/0x50 @ 33
[    0.110000] calling  8_probe+0x0/0x50 @ 34
[    0.200000] initcall 7_probe+0x0/0x50 returned after 97656 usecs
[    0.300000] initcall 8_probe+0x0/0x50 returned after 185546 usecs
[    0.600000] Run /init as init process
`)), `
kernel 0-600000 on kernel
  Linux version 6.12.0 0-100000 on kernel
probe 100000-200000 on initcalls of 33
probe 110000-300000 on initcalls of 34
`)
}

// Old kernels divide nanoseconds by 1,024. If the version is unknown, the difference does not count as printk.
func TestOldKernelsCountDifferently(t *testing.T) {
	const old = `[    0.000000] Linux version 4.19.0 (x@y)
[    0.000000] Command line: console=ttyS0 initcall_debug loglevel=8
[    0.008000] calling  tick_init+0x0/0x10 @ 1
[    0.012000] initcall tick_init+0x0/0x10 returned 0 after 3906 usecs
[    0.012001] calling  a_init+0x0/0x10 @ 1
[    0.014060] initcall a_init+0x0/0x10 returned 0 after 2011 usecs
[    0.022060] something
[    0.022060] calling  slow_init+0x0/0x10 @ 1
[    2.022060] initcall slow_init+0x0/0x10 returned 0 after 1953125 usecs
[    2.022061] calling  loud_init+0x0/0x10 @ 1
[    2.122061] initcall loud_init+0x0/0x10 returned 0 after 48828 usecs
[    2.512060] Run /sbin/init as init process
`
	for version, want := range map[string]string{
		"4.19.0": "    printk 2022061-2072061 on kernel\n", // 48,828 are 50.000 ms
		"5.17.1": "    printk 2022061-2073233 on kernel\n", // 50.000 ms, or 48.828 ms
		"6":      "    printk 2022061-2073233 on kernel\n",
		"5.19.0": "    printk 22060-68935 on kernel\n", // slow_init took 1.953 s
	} {
		got := tree(read(t, strings.Replace(old, "4.19.0", version, 1)))
		if !strings.Contains(got, want) || version != "5.19.0" && strings.Count(got, "  printk ") != 1 {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// A kernel that does not write those lines to its console does not wait for it.
func TestAQuietKernelWritesNothing(t *testing.T) {
	for _, words := range []string{"quiet", "loglevel=7", "debug quiet", ""} {
		if got := tree(read(t, strings.Replace(log, "quiet loglevel=8", words, 1))); strings.Contains(got, "printk") {
			t.Errorf("%q: %s", words, got)
		}
	}
	for _, words := range []string{"ignore_loglevel quiet", "debug", "loglevel=9"} {
		if got := tree(read(t, strings.Replace(log, "quiet loglevel=8", words, 1))); !strings.Contains(got, "printk") {
			t.Errorf("%q: %s", words, got)
		}
	}
}

// What the clock of the log had lost until it was corrected is no output.
func TestACorrectedClockIsNoOutput(t *testing.T) {
	for _, words := range []string{"loglevel=8", "quiet"} {
		r := read(t, "[    0.000000] Command line: "+words+`
[    0.080000] calling  sched_clock_init_late+0x0/0x9b @ 1
[    0.080000] sched_clock: Marking stable (75481222, 1050323)->(76531545, 0)
[    0.416036] initcall sched_clock_init_late+0x0/0x9b returned 0 after 36 usecs
[    0.420000] Run /init as init process
`)
		if got := tree(r); !strings.Contains(got, "\n    clock correction 80000-416000 on kernel\n") {
			t.Errorf("%q: %s", words, got)
		}
		if !slices.ContainsFunc(r.Notes, func(n bootmodel.Note) bool { return strings.Contains(n.Text, "fell behind") }) {
			t.Errorf("%q: notes %+v", words, r.Notes)
		}
	}
}

const trace = `# bakeoff boot events 1
# lost: Something was lost.
# trace clock: 50000000 60000000 50010000
# entries-in-buffer/entries-written: 5/9   #P:1
          <idle>-0 [000] ...1.     0.001000: sched_process_fork: comm=swapper/0 pid=0 child_comm=swapper/0 child_pid=1
        kthreadd-2 [000] .....     0.002000: sched_process_fork: comm=kthreadd pid=2 child_comm=kthreadd child_pid=3
            init-1       [000] .....     0.026000: sched_process_exec: filename=/init pid=1 old_pid=1
            init-1       [000] .....     0.030000: sched_process_fork: comm=init pid=1 child_comm=init child_pid=60
         my prog-60      [000] .....     0.031000: sched_process_exec: filename=/bin/my prog pid=60 old_pid=60
         my prog-60      [000] .....     0.040000: sched_process_exit: comm=my prog pid=60 prio=120
            init-1       [000] .....     0.041000: sched_process_exec: filename=/sbin/init pid=1 old_pid=1
            init-1       [000] .....     0.050000: sched_process_fork: comm=init pid=1 child_comm=init child_pid=61
[    0.000000] Linux version 6.1.0
[    0.015000] Run /init as init process
# clock: 50020000 50010000 50030000
`

func TestProcessesAreOnTheClockOfTheTrace(t *testing.T) {
	r := read(t, trace)
	expect(t, tree(r), `
kernel 0-15000 on kernel
  Linux version 6.1.0 0-15000 on kernel
/init 26000-41000 on /sbin/init
fork of /init 30000-31000 on /bin/my prog
/bin/my prog 31000-40000 on /bin/my prog
/sbin/init 41000-50000 open on /sbin/init
fork of /sbin/init 50000-50000 open on fork of /sbin/init
`)
	// Monotonic is 9.99 to 20 µs ahead of the log, and 9.990 to 10.001 ms behind the trace.
	trace, mono := r.Clocks[1], r.Clocks[2]
	if trace.OffsetNS != -10_010_000 || *trace.UncertaintyNS != 11_000 {
		t.Errorf("the trace is at %v ± %v", trace.OffsetNS, *trace.UncertaintyNS)
	}
	if mono.OffsetNS != -14_500 || *mono.UncertaintyNS != 5_500 {
		t.Errorf("CLOCK_MONOTONIC is at %v ± %v", mono.OffsetNS, *mono.UncertaintyNS)
	}
	if m := r.Marks[1]; m.Name != bootmodel.MarkUserland || m.At != 26000 || m.Clock != 1 ||
		m.How != "process 1 executed /init" {
		t.Errorf("mark %+v", m)
	}
	if len(r.Notes) != 2 || !r.Notes[0].Lost || !r.Notes[1].Lost || !strings.Contains(r.Notes[1].Text, "4 of 9 events") {
		t.Errorf("notes %+v", r.Notes)
	}
	if p := r.Tracks[2]; p.ID != "60" || p.Parent != 1 {
		t.Errorf("track %+v", p)
	}
}

// Without readings of both clocks the offset is a guess, and says so.
func TestAnUnreadClockIsAGuess(t *testing.T) {
	var lines []string
	for line := range strings.Lines(trace) {
		if !strings.HasPrefix(line, "# clock") {
			lines = append(lines, line)
		}
	}
	r := read(t, strings.Join(lines, ""))
	if c := r.Clocks[1]; c.OffsetNS != -11e6 || c.UncertaintyNS != nil || c.Note == "" {
		t.Errorf("clock %+v", c)
	}
}

// What the log lost at its start is said, and not made up.
func TestALostHeadIsNoted(t *testing.T) {
	r := read(t, "[    2.000100] initcall a_init+0x0/0x10 returned 0 after 70 usecs\n[    2.000200] Run /init as init "+
		"process\n")
	expect(t, tree(r), `
kernel 2000100-2000200 on kernel
a_init 2000030-2000100 on other probes 1
`)
	if len(r.Notes) != 2 || !r.Notes[0].Lost || !r.Notes[1].Lost {
		t.Errorf("notes %+v", r.Notes)
	}
}

// A log whose command line promises initcalls, and that has none, says so.
func TestPromisedInitcallsAreMissed(t *testing.T) {
	for words, want := range map[string]bool{"quiet initcall_debug": true, "initcall_debug=1": true, "quiet": false,
		"initcall_debug=0": false, "quiet -- initcall_debug": false} {
		for _, prefix := range []string{"Command line: ", "Kernel command line: "} {
			r := read(t, "[    0.000000] Linux version 6\n[    0.000000] "+prefix+words+"\n[    0.500000] Run /init as init "+
				"process\n")
			got := slices.ContainsFunc(r.Notes, func(n bootmodel.Note) bool {
				return n.Lost && strings.Contains(n.Text, "no line of the log is about an initcall")
			})
			if got != want || r.Command != words {
				t.Errorf("%s%s: %q, notes %+v", prefix, words, r.Command, r.Notes)
			}
		}
	}
	if r := read(t, log); len(r.Notes) > 0 {
		t.Errorf("notes %+v", r.Notes)
	}
}

// An event that cannot be read is left out and counted.
func TestADamagedEventIsLeftOut(t *testing.T) {
	const event, wrong = "pid=60 prio=120\n", "x [000] 1: sched_process_exit: comm=x pid=1\n"
	r := read(t, strings.Replace(trace, event, event+wrong, 1))
	want := "1 line was left out: line 11: this event has no task"
	if !slices.ContainsFunc(r.Notes, func(n bootmodel.Note) bool { return n.Lost && strings.HasPrefix(n.Text, want) }) ||
		len(r.Spans) != len(read(t, trace).Spans) {
		t.Errorf("notes %+v", r.Notes)
	}
}

func TestMistakes(t *testing.T) {
	boottest.Mistakes(t, New(), map[string]string{
		"x:1: the file is empty":          "",
		"x:1: no line begins with a time": "hello\n",
		"x:2: the file has neither":       "# bakeoff boot events 1\n# lost: all\n",
		"x:1: the file has no events except": "k-2 [0] 1.000000: sched_process_fork: comm=k pid=2 child_comm=k " +
			"child_pid=3\n",
		"x:1: this event has no task":                        "x [000] 1: sched_process_exit: comm=x pid=1\n",
		"x:1: this event does not name th":                   "x-1 [000] 1.000000: sched_process_exec: old_pid=1\n",
		"x:1: these are not counts":                          "# entries-in-buffer/entries-written: 9/5 #P:1\n",
		"x:1: this should be three times":                    "# clock: 3 2 1\n",
		"x:1: the times of this log are not in microseconds": "[    1.0000000] calling  a @ 1\n",
		"x:2: the clock starts again":                        "[    9.000000] a\n[    0.000000] b\n",
	})
}

func FuzzLinux(f *testing.F) { boottest.Fuzz(f, New(), log, asyncLog, trace) }
