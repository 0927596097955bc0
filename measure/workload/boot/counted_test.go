package boot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/workload"
)

const countedMarks = `{"schema":"bakeoff/boot/v2","ready_ns":9,"left_ns":10,"gone_ns":11,"counts":[` +
	`{"name":"userland","at":50000000},{"name":"burnt","at":71000123,"program":"/init"}],` +
	`"moments":[{"name":"x","at_ns":1,"uncertainty_ns":1}]}`

// A boot on the instruction clock is on that clock alone. Its parts end at the reports.
func TestBootsOnTheInstructionClock(t *testing.T) {
	r, err := Recording(workload.Raw{Blob: []byte(countedMarks)})
	if err != nil {
		t.Fatal(err)
	}
	length, _ := r.Length()
	if !r.CountsInstructions() || len(r.Clocks) != 1 || length != 71000123 || len(r.Notes) != 0 {
		t.Errorf("%+v", r)
	}
	want := []string{"-1 boot 0-71000123", "0 firmware and kernel 0-50000000",
		"0 /init up to the report burnt 50000000-71000123"}
	if got := spans(r); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var marks []string
	for _, m := range r.Marks {
		marks = append(marks, m.Name)
	}
	if got := strings.Join(marks, ", "); got != "vCPU start, first userland instruction, service ready" {
		t.Errorf("marks %s", got)
	}
}

func spans(r bootmodel.Recording) (out []string) {
	for i, s := range r.Spans {
		from, to := r.Times(i)
		out = append(out, fmt.Sprintf("%d %s %.0f-%.0f", s.Parent, s.Label(), from, to))
	}
	return out
}

// What the kernel printed takes the place of the parts. It is placed so that process 1
// starts where the first program reported.
func TestConsoleOfABootOnTheInstructionClock(t *testing.T) {
	const console = "SeaBIOS\r\n[    0.000000] Linux version 6.1.0\r\n[    0.010000] calling  a_init+0x0/0x10 @ 1\r\n" +
		"[    0.030000] initcall a_init+0x0/0x10 returned 0 after 20000 usecs\r\n" +
		"[    0.041000] Run /first as init process\r\n"
	r, err := Recording(workload.Raw{Blob: []byte(countedMarks), Console: []byte(console)})
	if err != nil {
		t.Fatal(err)
	}
	got := spans(r)
	for _, want := range []string{"-1 kernel 9000000-50000000", "0 a_init 19000000-39000000",
		"-1 /init up to the report burnt 50000000-71000123",
		"-1 firmware and early kernel 0-9000000"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q lacks in %q", want, got)
		}
	}
	if length, end := r.Length(); length != 71000123 || end != bootmodel.MarkService {
		t.Errorf("the boot took %v until %q", length, end)
	}
	// A console without a kernel log is a note, and the parts remain.
	r, err = Recording(workload.Raw{Blob: []byte(countedMarks), Console: []byte("hello\n")})
	if err != nil || len(r.Spans) != 3 || len(r.Notes) != 1 || !r.Notes[0].Lost {
		t.Errorf("%+v, %v", r, err)
	}
	// One that is as long as what is kept has lost its head.
	long := console + strings.Repeat("x", MaxConsole)
	if r, err = Recording(workload.Raw{Blob: []byte(countedMarks), Console: []byte(long[:MaxConsole])}); err != nil ||
		len(r.Notes) == 0 || !r.Notes[len(r.Notes)-1].Lost {
		t.Errorf("%+v, %v", r.Notes, err)
	}
}
