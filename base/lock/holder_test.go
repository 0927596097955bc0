package lock

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var ann = Owner{Run: "r1", Controller: "ctl", PID: 9, User: "ann", Token: "T", Host: "box",
	Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

// The file names the run that holds the lock, also over a longer text of the last one.
// Its first line is the process ID alone, as in older programs.
func TestHolderIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if HeldBy(path) != nil || HeldBy("") != nil {
		t.Error("a lock without a file is held")
	}
	if err := os.WriteFile(path, []byte("12345678\n"+strings.Repeat("x", 1000)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := TryFor(path, ann)
	if err != nil {
		t.Fatal(err)
	}
	want := Holder{os.Getpid(), ann, placeOf(l.f)}
	if by := HeldBy(path); by == nil || *by != want {
		t.Errorf("held by %+v, want %+v", by, want)
	}
	b, err := os.ReadFile(path)
	lines := strings.Split(string(b), "\n")
	if err != nil || len(lines) != 3 || lines[0] != strconv.Itoa(os.Getpid()) || lines[2] != "" {
		t.Errorf("the file is %q, %v; want the process ID in line 1, the owner in line 2", b, err)
	}
	l.Release()
	if by := HeldBy(path); by != nil {
		t.Errorf("a free lock is held by %+v", by)
	}
}

func TestHolderOf(t *testing.T) {
	for text, want := range map[string]Holder{
		"":                                  {},
		"42":                                {PID: 42},
		"42\n":                              {PID: 42}, // an older program
		"42\n{\"run\":\"r\",\"pid\":7}\n":   {PID: 42, Owner: Owner{Run: "r", PID: 7}},
		"42\n{\"run\":\"r\"}\nof another\n": {PID: 42, Owner: Owner{Run: "r"}},
		"42\n{\"run\":\"r\",\"pid\":\"x\"}": {PID: 42},
		"42\nno JSON\n":                     {PID: 42},
		"no number\n":                       {},
		"42\n" + strings.Repeat(" ", 1<<20): {},
	} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := HolderOf(path); got != want {
			t.Errorf("%.60q is read as %+v, want %+v", text, got, want)
		}
	}
	if got := HolderOf(filepath.Join(t.TempDir(), "none")); got != (Holder{}) {
		t.Errorf("no file is read as %+v", got)
	}
}

func TestHolderInWords(t *testing.T) {
	for _, c := range []struct {
		h            Holder
		text, remedy string
	}{
		{Holder{PID: 7}, "process 7 measures on this host",
			"wait for it to end: two runs at the same time disturb each other"},
		{Holder{PID: 7, Owner: ann}, "process 7 measures on this host (run r1, started by ann on ctl as process 9 at " +
			"2026-01-02 03:04:05 UTC)",
			"wait for it to end, or stop process 9 on ctl: two runs at the same time disturb each other"},
	} {
		if got := c.h.String(); got != c.text {
			t.Errorf("%+v is %q", c.h, got)
		}
		if got := c.h.Owner.Remedy(); got != c.remedy {
			t.Errorf("%+v has the remedy %q", c.h, got)
		}
	}
	bad := ann
	bad.Run, bad.Controller = "\x1b[2J\n", "\x1b]0;x\a"
	if text := bad.String() + bad.Remedy(); strings.ContainsAny(text, "\x1b\a\n") {
		t.Errorf("%q", text)
	}
}

// The file may be anybody's: what it says is read as a holder that can be written again
// and printed on one line, or not at all.
func FuzzHolder(f *testing.F) {
	for _, text := range []string{"", "7", "7\n", "x\n{}", "99999999999999999999\n",
		string(Holder{PID: 7, Owner: ann}.encode()),
		"7\n" + `{"token":"t","run":"\u001b[2J\n","since":"0000-01-01T00:00:00+23:59"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h := ParseHolder(b)
		if again := ParseHolder(h.encode()); again.String() != h.String() {
			t.Errorf("%q: %v is written and read as %v", b, h, again)
		}
		if strings.ContainsAny(h.String()+h.Owner.Remedy(), "\x1b\a\n\r") {
			t.Errorf("%q: %q", b, h.String()+h.Owner.Remedy())
		}
	})
}
