package bonnie

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

func with(set param.Values) param.Values { return tooltest.With(New(), set) }

// bonnieWrite is the column of the rate of writing.
const bonnieWrite = 11

// What was too fast to be measured is missing, and never zero.
func TestTooFastIsMissing(t *testing.T) {
	seen := false
	for _, g := range tooltest.Load(t, New()) {
		if !strings.Contains(g.Path, "too-fast") {
			continue
		}
		seen = true
		r, err := New().Parse(g.Output, g.Params)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Values {
			if slices.Contains([]string{"rewrite", "read", "seek", "create", "random-stat"}, v.Metric) {
				t.Errorf("%s was not measured, and is %g", v.Metric, v.Value)
			}
		}
		if r.OwnTime != "" {
			t.Errorf("writing was measured: %s", r.OwnTime)
		}
		// The fastest disk is not the one that failed: the trial is gated.
		text := string(g.Output.Stdout)
		row := strings.Split(text, ",")
		row[bonnieWrite], row[bonnieWrite+1] = "+++++", "+++"
		g.Output.Stdout = []byte(strings.Join(row, ","))
		if r, err = New().Parse(g.Output, g.Params); err != nil || !strings.Contains(r.OwnTime, "write too fast to measure") {
			t.Errorf("writing too fast: %q, %v", r.OwnTime, err)
		}
	}
	if !seen {
		t.Error("there is no stored output of what was too fast")
	}
}

// A file that memory can hold measures memory.
func TestFileMustExceedMemory(t *testing.T) {
	at := tooltest.At() // 64 MiB
	for _, c := range []struct {
		set param.Values
		ok  bool
	}{
		{param.Values{"size": "127MiB"}, false},
		{param.Values{"size": "128MiB"}, true},
		{param.Values{"size": "100MiB", "ram": "50MiB"}, true},
		{param.Values{"size": "100MiB", "ram": "51MiB"}, false},
		{param.Values{"size": "1025KiB", "ram": "1MiB"}, false},
	} {
		_, err := New().Command(with(c.set), at)
		if c.ok != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
	at.MemoryBytes = 0
	if _, err := New().Command(with(nil), at); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "ram: 512MiB") {
		t.Errorf("unknown memory: %v", err)
	}
	note := New().(tool.Noter).Notes(with(param.Values{"ram": "1MiB"}), tooltest.At())["cache"]
	if !strings.Contains(note, "fit in its cache") {
		t.Errorf("less memory than there is: %q", note)
	}
}

// Root must be told that it may, and nobody else can.
func TestUser(t *testing.T) {
	for uid, want := range map[string]bool{"0": true, "1000": false, "": false} {
		at := tooltest.At()
		at.UID = uid
		cmd, err := New().Command(with(nil), at)
		if err != nil || slices.Contains(cmd.Argv, "-u") != want {
			t.Errorf("user %q: %q, %v", uid, cmd.Argv, err)
		}
	}
}

// Only the format that is understood is read, and only of the file asked for.
func TestRefusesOtherFormats(t *testing.T) {
	g := tooltest.Load(t, New())[0]
	row := string(g.Output.Stdout)
	for name, bad := range map[string]string{
		"older format":  strings.Replace(row, "1.98,", "1.97,", 1),
		"field missing": strings.Replace(row, ",bakeoff,", ",", 1),
		"two lines":     row + row,
		"no CSV":        "write 100 MB/s\n",
	} {
		if r, err := New().Parse(tool.Output{Stdout: []byte(bad)}, g.Params); err == nil {
			t.Errorf("%s gives %v", name, r.Values)
		}
	}
	g.Params["size"] = "2GiB"
	if _, err := New().Parse(g.Output, g.Params); err == nil || !strings.Contains(err.Error(), "instead of") {
		t.Errorf("another size: %v", err)
	}
}

// bonnie++ prints no time. What its rates say of it fits into the time of the whole program,
// unless its clock ran fast.
func TestRatesFitIntoTheTime(t *testing.T) {
	for _, g := range tooltest.Load(t, New()) {
		r, err := New().Parse(g.Output, g.Params)
		if err != nil || r.OwnTime != "" {
			t.Errorf("%s: %v, %s", g.Path, err, r.OwnTime)
		}
		if !strings.Contains(g.Path, "one-gib") {
			continue
		}
		g.Output.Elapsed /= 2
		if r, err := New().Parse(g.Output, g.Params); err != nil || !strings.Contains(r.OwnTime, "took 25 s") {
			t.Errorf("%s in half of its time: %v, %q", g.Path, err, r.OwnTime)
		}
	}
}
