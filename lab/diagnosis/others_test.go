package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// table is a /proc whose CPUs worked for busy ticks.
func table(busy int, processes map[int]string) fstest.MapFS {
	root := fstest.MapFS{"proc/stat": {Data: fmt.Appendf(nil, "cpu  %d 0 0 900 10 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0\n", busy)},
		"proc/self/stat": {Data: []byte("no number")}, "proc/99/stat": {Data: []byte("99 (torn")}}
	for pid, text := range processes {
		root[fmt.Sprintf("proc/%d/stat", pid)] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func row(pid int, name string, parent, user, children int) string {
	return fmt.Sprintf("%d (%s) S %d 1 1 0 -1 4194560 100 0 0 0 %d 0 %d 0 20 0 1 0 100 0 0", pid,
		name, parent, user, children)
}

// What others use is what all use without this program and its children, those that
// ended included. Programs are named whatever their names contain.
func TestOthers(t *testing.T) {
	before := ReadProcesses(table(1000, map[int]string{1: row(1, "init", 0, 5, 0), 10: row(10, "bakeoff", 1, 50, 0),
		11: row(11, "agent", 10, 10, 0), 20: row(20, "a) b (c", 1, 100, 0), 21: row(21, "make", 1, 7, 0)}))
	after := ReadProcesses(table(1300, map[int]string{1: row(1, "init", 0, 5, 0), 10: row(10, "bakeoff", 1, 60, 40),
		11: row(11, "agent", 10, 30, 0), 20: row(20, "a) b (c", 1, 190, 0), 21: row(21, "make", 1, 17, 500),
		22: row(22, "cc1", 21, 30, 0), 23: row(23, "cc1", 21, 40, 0)}))
	after.at = before.at.Add(time.Second)
	o := after.Others(before, 10)
	if o == nil || math.Abs(o.Used-2.3) > 1e-9 { // 3.0 without 0.1, 0.4 and 0.2
		t.Fatalf("%+v, want 2.3 CPUs", o)
	}
	var got []string
	for _, p := range o.Programs {
		got = append(got, fmt.Sprintf("%s %.1f", p.Name, p.Used))
	}
	if want := []string{"a) b (c 0.9", "cc1 0.7", "make 0.1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if (*Processes)(nil).Others(before, 10) != nil || before.Others(before, 10) != nil ||
		ReadProcesses(fstest.MapFS{}) != nil {
		t.Error("what was not read is known")
	}
}

func FuzzProcess(f *testing.F) {
	f.Add(row(1, "a) b", 2, 3, 4))
	f.Add("1 (x) S")
	f.Add("cpu  1 2 3 4 5 6 7 8")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parseProcess(text); ok && !(p.own >= 0 && p.ended >= 0) {
			t.Errorf("%q: %+v", text, p)
		}
		if s, ok := busySeconds(text); ok && !(s >= 0) {
			t.Errorf("%q: %g s", text, s)
		}
	})
}
