package estimate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"bakeoff/base/fault"
	"bakeoff/measure/codec"
)

const version154 = "*** Zstandard CLI (64-bit) v1.5.4, by Yann Collet ***\n"

// fake is a zstd that has klauspost's for its compressor.
type fake struct {
	mu    sync.Mutex
	calls [][]string
	fails error
	says  string // after the frames
}

func (f *fake) run(ctx context.Context, argv []string) (out, complaints []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, argv)
	if argv[1] == "--version" {
		return []byte(version154), nil, nil
	}
	if f.fails != nil {
		return nil, []byte("zstd: no space"), f.fails
	}
	files := argv[slices.Index(argv, "--")+1:]
	if slices.Contains(argv, "-i0") {
		return nil, fmt.Appendf(nil, "bench 1.5.4 : input 9 bytes, 0 seconds, 0 KB blocks\n-3        49324 (2.657)  "+
			"50.00 MB/s  105.3 MB/s   %d files\n", len(files)), nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		out = e.EncodeAll(b, out)
	}
	return append(out, f.says...), nil, ctx.Err()
}

// direct is fake's compressor as one of our own.
func direct(t *testing.T, stripped bool) func(*batch) codec.Encoder {
	return func(*batch) codec.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1),
			zstd.WithSingleSegment(true))
		if err != nil {
			t.Error(err)
		}
		all := encode(func(dst, src []byte, limit int) ([]byte, bool) {
			base := len(dst)
			dst = e.EncodeAll(src, dst)
			return dst, len(dst)-base <= limit
		})
		if stripped {
			return bare{all}
		}
		return all
	}
}

type encode func(dst, src []byte, limit int) ([]byte, bool)

func (e encode) Encode(dst, src []byte, limit int) ([]byte, bool) { return e(dst, src, limit) }

func program(t *testing.T, f *fake) *Program {
	t.Helper()
	p, err := NewProgram(t.Context(), "zstd", f.run)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What the program says is what is counted, by both file systems' rules; all
// levels are there.
func TestTheProgramIsAsked(t *testing.T) {
	dir := mail(t, 300)
	t.Setenv("TMPDIR", t.TempDir())
	text := bytes.Repeat([]byte("To be or not to be. "), 30_000)
	for name, b := range map[string][]byte{"big": append(append(noise(300_000), text...), noise(900_000)...),
		"zeros": make([]byte, 300_000)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var f fake
	p := program(t, &f)
	o := Options{Records: []int64{4096, 1 << 17, 1 << 20}, Program: p}
	var err error
	if o.Algorithms, err = Find([]string{"zstd-1", "zstd-19", "zstd:1", "zstd:15"}, p); err != nil {
		t.Fatal(err)
	}
	e, err := Folder(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	// The same compressor, called directly.
	for i, a := range o.Algorithms {
		o.Algorithms[i].level = 0
		o.Algorithms[i].encoder = direct(t, a.FileSystem == ZFS)
		if a.Name == "zstd-19" {
			o.Algorithms[i].careful[1] = direct(t, true)
		}
	}
	want, err := Folder(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range e.Rows {
		if r.Ratio != want.Rows[i].Ratio || r.StoredBytes != want.Rows[i].StoredBytes || r.Ratio <= 1 {
			t.Errorf("%s in records of %d: ratio %g and %d bytes, want %g and %d", r.Name, r.Record, r.Ratio, r.StoredBytes,
				want.Rows[i].Ratio, want.Rows[i].StoredBytes)
		}
		if r.BytesPerSecond == nil || *r.BytesPerSecond < 49.9e6 || *r.BytesPerSecond > 50.1e6 {
			t.Errorf("%s in records of %d: its speed is not what the program measured", r.Name, r.Record)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%d temporary files are left: %v", len(left), err)
	}
	for _, argv := range f.calls[1:] {
		if n := len(argv) - slices.Index(argv, "--") - 1; n < 1 || n > programFiles ||
			!slices.Contains(argv, "--single-thread") || !slices.Contains(argv, "--no-row-match-finder") {
			t.Errorf("called with %d files: %.100q", n, argv)
		}
	}
}

// The first batch may have nothing to compress: the speed is then measured in a
// later one.
func TestTheFirstBatchIsZeros(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string][]byte{"a": make([]byte, batchBytes),
		"b": bytes.Repeat([]byte("To be or not to be. "), 30_000)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var f fake
	o := Options{Records: []int64{1 << 17}, Program: program(t, &f), Workers: 1}
	var err error
	if o.Algorithms, err = Find([]string{"zstd-19", "zstd:15"}, o.Program); err != nil {
		t.Fatal(err)
	}
	e, err := Folder(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Rows {
		if r.BytesPerSecond == nil {
			t.Errorf("%s of %s has no speed", r.Name, r.FileSystem)
		}
	}
}

func TestWhatTheProgramDoesWrong(t *testing.T) {
	dir := mail(t, 30)
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct {
		fake *fake
		says string
	}{
		"it fails":             {&fake{fails: errors.New("exit status 1")}, "no space"},
		"it writes no frames":  {&fake{says: "hello"}, "no Zstandard frame"},
		"it writes one more":   {&fake{says: "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"}, "frames"},
		"it writes half a one": {&fake{says: "\x28\xb5\x2f\xfd\x20\x00\x01"}, "ends within"},
	} {
		p := program(t, c.fake)
		o := Options{Program: p}
		o.Algorithms, _ = Find([]string{"zstd:3"}, p)
		if _, err := Folder(t.Context(), dir, o); !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
			t.Errorf("%s: %d temporary files are left: %v", name, len(left), err)
		}
		o.Program = nil
		if _, err := Folder(t.Context(), dir, o); !fault.Is(err, fault.Invalid) {
			t.Errorf("without the program: %v", err)
		}
	}
}

func TestWhichProgram(t *testing.T) {
	for says, want := range map[string]string{
		version154: "1.5.4",
		"*** zstd command line interface 64-bits v1.4.8, by Yann Collet ***\n": "1.4.8",
		"*** Zstandard CLI (64-bit) v1.5.7, by Yann Collet ***\n":              "1.5.7",
		"zip v3.0.1": "", "zstd": "", "": "",
	} {
		p, err := NewProgram(t.Context(), "zstd", func(context.Context, []string) ([]byte, []byte,
			error) {
			return []byte(says), nil, nil
		})
		if want == "" && !fault.Is(err, fault.Unsupported) || want != "" &&
			(err != nil || p.Version != want || p.rows != (want > "1.5")) {
			t.Errorf("%q: %+v %v", says, p, err)
		}
	}
	none := func(context.Context, []string) ([]byte, []byte, error) { return nil, nil, os.ErrNotExist }
	if _, err := NewProgram(t.Context(), "zstd", none); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(fault.Fix(err), "install zstd") {
		t.Errorf("without zstd: %v", err)
	}
}

// A line of zstd 1.5.4 with -q, and what the same says without.
func FuzzParseSpeed(f *testing.F) {
	const line = "bench 1.5.4 : input 3600000 bytes, 0 seconds, 0 KB blocks\n-3      1217358 (2.957) 130.65 MB/s  " +
		"442.1 MB/s   882 files\n"
	if got := parseSpeed([]byte(line)); got != 130.65e6 {
		f.Errorf("%g B/s", got)
	}
	f.Add([]byte(line))
	f.Add([]byte(" 3#3 files          :    141122 ->     53552 (x2.635),   91.8 MB/s,   14.4 MB/s"))
	f.Add([]byte("--5      1217358 (2.957) 1e999 MB/s  442.1 MB/s   882 files"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v := parseSpeed(b); v != 0 && !(v > 0 && v <= 1e15) {
			t.Errorf("%g B/s", v)
		}
	})
}
