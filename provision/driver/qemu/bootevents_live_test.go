//go:build linux

package qemu

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/base/param"
	"bakeoff/measure/boot/linux"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/wire"
)

// A guest tells where the time of its boot went: its initcalls, and its processes from the
// first one on.
func TestGuestRecordsItsBoot(t *testing.T) {
	in := create(t, parallel(t, param.Values{optAccel: qemu.TCG, optAppend: "initcall_debug log_buf_len=4M " +
		"trace_event=sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit"}))
	output(t, in, "sh", "-c", "true; sleep 0.1; true")
	r, err := linux.New().Read("guest", []byte(output(t, in, wire.GuestAgent, "boot-events")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Notes {
		if n.Lost {
			t.Errorf("the guest lost events: %s", n.Text)
		}
	}
	if len(r.Spans) < 500 {
		t.Errorf("%d spans", len(r.Spans))
	}
	span := func(name string) (from, to float64) {
		i := slices.IndexFunc(r.Spans, func(s bootmodel.Span) bool { return strings.HasSuffix(s.Name, name) })
		if i < 0 {
			t.Fatalf("no span %s", name)
		}
		return r.Times(i)
	}
	kernel, userland := span("kernel")
	initcall, _ := span("crypto_algapi_init")
	program, ended := span("/sleep")
	if !(kernel <= initcall && initcall < userland && userland < program) {
		t.Errorf("kernel %v, initcall %v, userland %v, sleep %v", kernel, initcall, userland, program)
	}
	if ended-program < 0.09e9 {
		t.Errorf("sleep took %v ns", ended-program)
	}
	// The clock of the agent is placed on that of the log. Its init began after process 1.
	p, ok := r.Same("monotonic")
	if !ok {
		t.Fatal("the clocks of the guest were not compared")
	}
	if began := p.Before + float64(in.Boot.StartedNS); began < userland {
		t.Errorf("init began at %v, and the kernel started it at %v", began, userland)
	}
	t.Logf("%d spans on %d tracks; userland after %.3f s; clocks known to %.0f µs", len(r.Spans), len(r.Tracks),
		userland/1e9,
		(p.Before-p.After)/2e3)
}
