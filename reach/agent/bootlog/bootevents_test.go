package bootlog

import (
	"strings"
	"testing"
)

func TestRecordsOfKmsgAreLinesOfDmesg(t *testing.T) {
	for record, want := range map[string]string{
		"6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n": "[    5.140900] NET: Registered " +
			"protocol family 10\n",
		"4,0,12345678901,c,caller=T1;calling  f+0x0/0x1 @ 1\n": "[12345.678901][T1] calling  f+0x0/0x1 " +
			"@ 1\n",
		"6,1,0,-;\n": "[    0.000000] \n",
	} {
		r, ok := parseKmsg(record)
		if !ok || r.line() != want {
			t.Errorf("%q is %q (%v), want %q", record, r.line(), ok, want)
		}
	}
	for _, record := range []string{"", "6,1,2;x", "6,x,2,-;x", "6,1,-2,-;x", "6,1,2,-"} {
		if r, ok := parseKmsg(record); ok {
			t.Errorf("%q is %+v", record, r)
		}
	}
}

func TestTheTraceIsCutToProcesses(t *testing.T) {
	const trace = `# tracer: nop
# entries-in-buffer/entries-written: 4/9   #P:1
            init-1       [000] .....     9.369310: sched_process_exec: filename=/init pid=1 old_pid=1
            init-1       [000] .....     9.400000: sys_enter: NR 1
           agent-88      [000] .....    10.400007: tracing_mark_write: bakeoff-agent: clock
`
	var b strings.Builder
	marked, err := copyTrace(&b, strings.NewReader(trace))
	want := "# entries-in-buffer/entries-written: 4/9   #P:1\n" +
		"            init-1       [000] .....     9.369310: sched_process_exec: filename=/init pid=1 old_pid=1\n"
	if err != nil || marked != 10_400_007_000 || b.String() != want {
		t.Errorf("%d, %v:\n%s", marked, err, b.String())
	}
	if marked, _ := copyTrace(&b,
		strings.NewReader(" x-1 [0] 123: tracing_mark_write: bakeoff-agent: clock\n")); marked != -1 {
		t.Errorf("a clock that counts no microseconds reads %d", marked)
	}
}
