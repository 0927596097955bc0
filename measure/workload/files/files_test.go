package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/loop"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{
		Common: param.Values{"time": "30ms", "size": "1MiB"},
		Cells: []param.Values{
			{"fsync": "each"},
			{"op": "seq-write"}, {"op": "seq-write", "fsync": "none", "block": "64KiB"},
			{"op": "rand-write", "fsync": "each"}, {"op": "rand-write", "block": "512B"},
			{"op": "seq-read", "block": "64KiB"}, {"op": "rand-read"},
			{"op": "copy", "block": "1KiB", "fsync": "none"}, {"op": "copy"}, {"op": "copy", "fsync": "each"},
		},
	})
}

func cell(t *testing.T, set param.Values) (param.Values, loop.Env) {
	p := param.Defaults(Loop().Params)
	p["time"], p["size"] = "20ms", "256KiB"
	for k, v := range set {
		p[k] = v
	}
	return p, loop.Env{Dir: filepath.Join(t.TempDir(), "files"), Log: os.Stderr}
}

// TestOrders checks that a pass takes every block once.
func TestOrders(t *testing.T) {
	for _, n := range []int{2, 3, 64, 4097} {
		order := permutation(n)
		if slices.IsSorted(order) && n > 3 {
			t.Errorf("%d blocks are in order", n)
		}
		slices.Sort(order)
		for i, v := range order {
			if int(v) != i {
				t.Fatalf("of %d blocks, %d is missing or twice", n, i)
			}
		}
	}
}

// What a trial left is right for the next one, whatever it does.
func TestTrialsShareTheFile(t *testing.T) {
	ctx := context.Background()
	p, env := cell(t, nil)
	for _, op := range []string{"rand-write", "seq-read", "seq-write", "rand-read", "copy", "create-stat-delete",
		"create-stat-delete"} {
		p["op"] = op
		if err := prepare(ctx, p, env); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		r, err := runLoop(ctx, p, env)
		if err != nil || !r.Check.Verified {
			t.Fatalf("%s: %v", op, err)
		}
	}
}

// corrupt changes a byte of the large file.
func corrupt(t *testing.T, s settings, at int64) {
	t.Helper()
	f, err := os.OpenFile(s.path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// A copy that differs from its source is found.
func TestBadCopyIsFound(t *testing.T) {
	for name, damage := range map[string]func(c *copying) error{
		"short": func(c *copying) error { return os.Truncate(c.path, c.from.size-1) },
		"other content": func(c *copying) error {
			_, err := writeAt(c.to, []byte{1, 2, 3}, 3*4096+100)
			return err
		},
	} {
		p, env := cell(t, param.Values{"op": "copy"})
		if err := prepare(context.Background(), p, env); err != nil {
			t.Fatal(err)
		}
		s, err := readSettings(p, env)
		if err != nil {
			t.Fatal(err)
		}
		c, err := openCopy(s, newTimer())
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if err := c.do(c.from.blocks * 2); err != nil {
			t.Fatal(err)
		}
		if _, err := c.check(); err != nil {
			t.Fatalf("a good copy: %v", err)
		}
		if err := damage(c); err != nil {
			t.Fatal(err)
		}
		if _, err := c.check(); !fault.Is(err, fault.Subject) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// A file system that returns something else than was written is a failure of
// it, and found, wherever in a block it is.
func TestDamageIsFound(t *testing.T) {
	for name, at := range map[string]int64{"number": 5 * 4096, "middle": 5*4096 + 2001, "end": 6*4096 - 1} {
		p, env := cell(t, param.Values{"op": "rand-read"})
		if err := prepare(context.Background(), p, env); err != nil {
			t.Fatal(err)
		}
		s, err := readSettings(p, env)
		if err != nil {
			t.Fatal(err)
		}
		corrupt(t, s, at)
		_, err = runLoop(context.Background(), p, env)
		// The stamp in the last word may have any value in a block that this
		// trial did not write.
		if name == "end" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "block 5") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// A lost write shows in the stamp of the block.
func TestALostWriteIsFound(t *testing.T) {
	p, env := cell(t, param.Values{"op": "seq-write"})
	if err := prepare(context.Background(), p, env); err != nil {
		t.Fatal(err)
	}
	s, err := readSettings(p, env)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openLarge(s, newTimer())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.do(10); err != nil {
		t.Fatal(err)
	}
	if _, err := w.check(); err != nil {
		t.Fatal(err)
	}
	old := pattern(s.block)
	stampBlock(old, 7, 0) // as it was laid out
	if err := writeAll(w.fd, old, 7*s.block); err != nil {
		t.Fatal(err)
	}
	if _, err := w.check(); !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "stamp of block 7") {
		t.Errorf("error is %v", err)
	}
}

func TestSmallFilesAreChecked(t *testing.T) {
	p, env := cell(t, nil)
	s, err := readSettings(p, env)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openSmall(s, newTimer())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.do(700); err != nil {
		t.Fatal(err)
	}
	if _, err := w.check(); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(s.smallDir(), w.name(w.next-1))
	if err := os.WriteFile(victim, make([]byte, s.block), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.check(); err == nil {
		t.Error("a file with zeros passed")
	}
	os.Remove(victim)
	if _, err := w.check(); err == nil {
		t.Error("a missing file passed")
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		set  param.Values
		says string
	}{
		{param.Values{"op": "seq-read", "block": "3000B"}, "multiple of block"},
		{param.Values{"op": "seq-read", "size": "4KiB"}, "at least two blocks"},
		{param.Values{"op": "seq-read", "size": "1TiB", "block": "512B"}, "the limit is"},
		{param.Values{"op": "seq-write", "cache": "cold"}, "requires op=seq-read"},
	} {
		p, env := cell(t, c.set)
		if err := prepare(context.Background(), p, env); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error is %v, want %q", c.set, err, c.says)
		}
	}
	p, env := cell(t, param.Values{"op": "seq-read"})
	if _, err := runLoop(context.Background(), p, env); err == nil || !strings.Contains(err.Error(), "prepare") {
		t.Errorf("without the file the error is %v", err)
	}
}

// An interrupted preparation leaves nothing that the next one would take for
// the whole file.
func TestPrepareIsWholeOrNot(t *testing.T) {
	p, env := cell(t, param.Values{"op": "seq-read"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := prepare(ctx, p, env); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	if left, _ := os.ReadDir(env.Dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}
