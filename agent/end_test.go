package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/fault"
)

// The one that bears the word goes first, then what descends from it, and
// nobody else.
func TestMarked(t *testing.T) {
	proc := t.TempDir()
	for _, p := range []struct{ pid, line, stat string }{
		{"1", "agent\x00pause\x00", "1 (agent) S 0 1 1"},
		{"7", "agent\x00enter\x00--mark\x00word\x00--\x00sh\x00", "7 (agent) S 1 7 7"},
		{"8", "sh\x00", "8 (a) b) S 7 7 7"},
		{"9", "sleep\x00", "9 (sleep) S 8 7 7"},
		{"10", "agent\x00enter\x00--mark\x00other\x00", "10 (agent) S 1 10 10"},
		{"11", "grep\x00word\x00", "11 (grep) S 1 11 11"},
		{"12", "agent\x00end\x00word\x00", "12 (agent) S 1 12 12"},
	} {
		if err := os.Mkdir(filepath.Join(proc, p.pid), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cmdline": p.line, "stat": p.stat} {
			if err := os.WriteFile(filepath.Join(proc, p.pid, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := marked(proc, "word", 12)
	if err != nil || !slices.Equal(got, []int{7, 8, 9}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := end(proc, "nobody"); !fault.Is(err, fault.NotFound) {
		t.Errorf("nobody: %v", err)
	}
}

func FuzzParentOf(f *testing.F) {
	f.Add("8 (a) b) S 7 7 7")
	f.Add(")")
	f.Add("")
	f.Add("1 (x) S -4")
	f.Fuzz(func(t *testing.T, stat string) {
		if n := parentOf(stat); n < 0 || n > 0 && !strings.Contains(stat, " ") {
			t.Errorf("%q: %d", stat, n)
		}
	})
}
