package journal_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/journal"
)

// Lines are read back, after a torn end was removed, and damage names its line.
func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	w, lines, f := openJournal(t, name)
	if err := errors.Join(w.Append(entry{1, "a"}), w.Append(entry{2, "b"})); err != nil || len(lines) != 0 {
		t.Fatal(err, lines)
	}
	for what, e := range map[string]entry{
		"two first lines":         {N: 1},
		"a line that is too long": {3, strings.Repeat("x", journal.MaxLine)},
	} {
		if err := w.Append(e); !fault.Is(err, fault.Lab) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.WriteString(`{"n":3,`); err != nil {
		t.Fatal(err)
	}
	w, lines, _ = openJournal(t, name)
	if err := w.Append(entry{3, "c"}); err != nil || len(lines) != 2 || lines[1] != (entry{2, "b"}) {
		t.Fatal(err, lines)
	}
	b, err := os.ReadFile(name)
	want := "{\"n\":1,\"text\":\"a\"}\n{\"n\":2,\"text\":\"b\"}\n{\"n\":3,\"text\":\"c\"}\n"
	if err != nil || string(b) != want {
		t.Fatalf("%q, %v", b, err)
	}
	lines, end, err := format.Read(strings.NewReader(want + "{\"n\":4,\"x\":1}\n"))
	damage, ok := errors.AsType[*journal.Damage](err)
	if len(lines) != 3 || end != int64(len(want)) || !ok || damage.Line != 4 || !fault.Is(err, fault.Invalid) ||
		!strings.HasPrefix(err.Error(), "test.ndjson:4: damaged: ") || fault.Fix(err) != format.Fix {
		t.Errorf("%d lines, %d bytes, %v", len(lines), end, err)
	}
}

// What cannot be written is taken back, and what cannot be taken back ends the journal.
func TestAppendFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	w, _, f := openJournal(t, name)
	if err := w.Append(entry{1, "a"}); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := w.Append(entry{2, "b"}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is closed: %v", err)
	}
	err := w.Append(entry{2, "b"})
	if err == nil || !strings.Contains(err.Error(), "removing the incomplete line also failed") {
		t.Errorf("after it: %v", err)
	}
}

// Reading any bytes gives lines that are read again from the bytes that count.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"n\":1,\"text\":\"a\"}\n{\"n\":2,\"text\":\"b\"}\n{\"n\":3"))
	f.Add([]byte("{\"n\":2}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, end, err := format.Read(bytes.NewReader(data))
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("error %v", err)
		}
		again, n, err := format.Read(io.LimitReader(bytes.NewReader(data), end))
		if err != nil || n != end || len(again) != len(lines) {
			t.Fatalf("read again: %d lines in %d bytes, %v; at first %d lines in %d bytes", len(again), n, err,
				len(lines), end)
		}
	})
}
