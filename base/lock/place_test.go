package lock

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestPlaceIsThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs the /proc of Linux")
	}
	dir := t.TempDir()
	a, err := Try(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	p := HolderOf(filepath.Join(dir, "a")).Place
	if p.Boot == "" || p.Holder != os.Getpid() || p.HolderStart == 0 || !strings.HasPrefix(p.PIDNamespace, "pid:[") {
		t.Errorf("this process is at %+v", p)
	}
	b, err := Try(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if q := HolderOf(filepath.Join(dir, "b")).Place; q.File == p.File || q.HolderStart != p.HolderStart {
		t.Errorf("two files of one process: %+v and %+v", p, q)
	}
	if p.Ended() || (Place{}).Ended() {
		t.Error("this process has ended")
	}
	p.HolderStart++
	if os.Getuid() == 0 && p.PIDNamespace == initial && !p.Ended() {
		t.Errorf("no process is at %+v", p)
	}
}

// A name may contain spaces and parentheses, and a process that nobody has waited for
// does nothing any more.
func TestStartOf(t *testing.T) {
	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n"
	for text, want := range map[string]uint64{
		"7 (sh) S" + rest:         4711,
		"7 (a) S 1 (b) R" + rest:  4711,
		"7 (sh) Z" + rest:         0,
		"7 (sh) S 1 2 3":          0,
		"":                        0,
		"7 (sh) S" + rest[:40]:    0,
		strings.Repeat("x ", 100): 0,
	} {
		if got := StartOf([]byte(text)); got != want {
			t.Errorf("%q started at %d, want %d", text, got, want)
		}
	}
}

func FuzzStartOf(f *testing.F) {
	f.Add([]byte("7 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, b []byte) { StartOf(b) })
}
