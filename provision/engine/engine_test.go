package engine

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

// The engines read --mount as a line of CSV: what a person named a directory
// does not become an option.
func TestMountFlag(t *testing.T) {
	for _, name := range []string{"/a", "/with space", "/a,readonly", `/quo"te`, "/new\nline"} {
		line := mountFlag(wire.Bind{From: name, To: "/x", ReadOnly: true})
		r := csv.NewReader(strings.NewReader(line))
		fields, err := r.Read()
		if err != nil || !slices.Equal(fields, []string{"type=bind", "source=" + name, "target=/x", "readonly"}) {
			t.Errorf("%q: %q, %v", line, fields, err)
		}
	}
}

func FuzzParseFound(f *testing.F) {
	f.Add(strings.Repeat("a1", 32) + " 4711")
	f.Add(strings.Repeat("a1", 32) + " 0")
	f.Add("x 1")
	f.Fuzz(func(t *testing.T, out string) {
		id, pid, err := parseFound(out)
		if err == nil && (len(id) != 64 || pid < 2) || err != nil && (id != "" || pid != 0) {
			t.Errorf("%q gave %q, %d, %v", out, id, pid, err)
		}
	})
}

func TestParseFound(t *testing.T) {
	if id, pid, err := parseFound(strings.Repeat("0f", 32) + " 77"); err != nil || pid != 77 || len(id) != 64 {
		t.Errorf("%q, %d, %v", id, pid, err)
	}
	// A container that has ended has the process 0.
	if _, _, err := parseFound(strings.Repeat("0f", 32) + " 0"); !fault.Is(err, fault.Subject) {
		t.Errorf("%v", err)
	}
}

func FuzzSessionOf(f *testing.F) {
	f.Add("12 (a b) S 1 12 34 0 -1")
	f.Add("12 (a) S 1) R 5 6 78 9")
	f.Add("12 (x")
	f.Fuzz(func(t *testing.T, stat string) {
		if n := sessionOf(stat); n < 0 {
			t.Errorf("%q: session %d", stat, n)
		}
	})
}

func TestSessionOf(t *testing.T) {
	for stat, want := range map[string]int{"12 (a b) S 1 12 34 0 -1": 34, "12 (a) S 1 2 3 4) R 5 6 78 9": 78, "": 0,
		"1 (a) S": 0} {
		if got := sessionOf(stat); got != want {
			t.Errorf("%q: %d, want %d", stat, got, want)
		}
	}
}

func TestTag(t *testing.T) {
	tag, err := Tag("sha256:" + strings.Repeat("ab", 32))
	if err != nil || tag != "bakeoff.invalid/bakeoff:"+strings.Repeat("ab", 16) {
		t.Errorf("%q, %v", tag, err)
	}
	for _, bad := range []string{"", "sha256:", "sha256:a b", "--all", "a/b"} {
		if tag, err := Tag(bad); err == nil {
			t.Errorf("%q became %q", bad, tag)
		}
	}
}
