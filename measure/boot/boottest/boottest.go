// Package boottest is the suite that every source of boot recordings passes.
//
// A source's testdata holds files of real programs as txtar archives, or as txtar
// archives packed by gzip if they are large. The head of an archive has the program, its
// version, the system and the command:
//
//	program: dmesg from util-linux
//	version: 2.38.1
//	system: Debian 12 (bookworm), amd64
//	command: dmesg
//	-- boot.txt --  a file as the program wrote it
//
// FILE.want, next to the archive, holds a summary of what Read gives. `go test -update`
// rewrites it; review it.
package boottest

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/measure/boot"
)

var update = flag.Bool("update", false, "rewrite the expected results of stored files")

// maxUnpacked bounds a packed archive.
const maxUnpacked = 64 << 20

// Load returns the files of the archive path, packed or not.
func Load(t testing.TB, path string) *txtar.Archive {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(io.LimitReader(z, maxUnpacked)); err != nil {
			t.Fatal(err)
		}
	}
	return txtar.Parse(data)
}

func storedFiles(t testing.TB) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"testdata/*.txtar", "testdata/*.txtar.gz"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, more...)
	}
	if len(paths) == 0 {
		t.Fatal("no stored files")
	}
	return paths
}

// Run checks s against its description and its stored files.
func Run(t *testing.T, s boot.Source) {
	t.Run("doc", func(t *testing.T) { checkDoc(t, s.Doc()) })
	for _, path := range storedFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a := Load(t, path)
			for _, name := range []string{"program", "version", "system", "command"} {
				if !regexp.MustCompile(`(?m)^` + name + `: \S`).Match(a.Comment) {
					t.Errorf("%s does not say its %s", path, name)
				}
			}
			var got strings.Builder
			for _, f := range a.Files {
				got.WriteString(checkStored(t, s, f))
			}
			compare(t, path+".want", got.String())
		})
	}
}

// checkStored checks one stored file and returns its summary.
func checkStored(t *testing.T, s boot.Source, f txtar.File) string {
	if !s.Recognizes(f.Data[:min(len(f.Data), boot.HeadBytes)]) {
		t.Errorf("%s is not recognized", f.Name)
	}
	before := bytes.Clone(f.Data)
	r, err := s.Read(f.Name, f.Data)
	again, err2 := s.Read(f.Name, f.Data)
	if !reflect.DeepEqual(r, again) || fmt.Sprint(err) != fmt.Sprint(err2) || !bytes.Equal(before, f.Data) {
		t.Errorf("Read of %s is not pure", f.Name)
	}
	Check(t, s, f.Name, r, err)
	if err == nil {
		roundTrip(t, r)
	}
	checkDamaged(t, s, f)
	return summary(f.Name, r, err)
}

// roundTrip writes and reads a recording.
func roundTrip(t *testing.T, r bootmodel.Recording) {
	var b bytes.Buffer
	if err := boot.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	if !boot.IsRecording(b.Bytes()) {
		t.Error("a written recording is not recognized")
	}
	back, err := boot.Parse("written", b.Bytes())
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("a written recording reads differently (%v)", err)
	}
}

// checkDamaged reads files that end too early, files with a wrong byte, and files that lack
// a line.
func checkDamaged(t *testing.T, s boot.Source, f txtar.File) {
	const times = 40
	for i := range times {
		n := i * len(f.Data) / times
		wrong := bytes.Clone(f.Data)
		wrong[n] ^= 1 << (i % 8)
		end := n + bytes.IndexByte(f.Data[n:], '\n') + 1
		for _, data := range [][]byte{f.Data[:n], wrong, append(bytes.Clone(f.Data[:n]), f.Data[end:]...)} {
			r, err := s.Read(f.Name, data)
			Check(t, s, f.Name, r, err)
			s.Recognizes(data[:min(len(data), boot.HeadBytes)])
		}
	}
}

var name = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func checkDoc(t *testing.T, d boot.SourceDoc) {
	if !name.MatchString(d.Name) || d.Reads == "" || d.Get == "" || !strings.HasSuffix(d.Says, ".") {
		t.Errorf("incomplete: %+v", d)
	}
}

var located = regexp.MustCompile(`^:[1-9][0-9]*: `)

// Check fails the test if a result of Read is none that a Source may give.
func Check(t testing.TB, s boot.Source, file string, r bootmodel.Recording, err error) {
	t.Helper()
	if err == nil {
		if bad := bootmodel.Check(file, r); bad != nil {
			t.Errorf("%s gives a recording that breaks a promise: %v", s.Doc().Name, bad)
		}
		if len(r.Spans) == 0 && len(r.Marks) == 0 {
			t.Error("neither a span nor a mark nor an error")
		}
		return
	}
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("the error is of kind %v: %v", fault.Of(err), err)
	}
	for line := range strings.Lines(err.Error()) {
		rest, ok := strings.CutPrefix(line, file)
		if !(ok && located.MatchString(rest)) && !strings.HasPrefix(line, "and ") {
			t.Errorf("a line of the error does not begin with file:line: %q", line)
			return
		}
	}
}

// Mistakes checks that s refuses each text with the error that it should give. A key
// of texts is the beginning of the error of a file called x.
func Mistakes(t *testing.T, s boot.Source, texts map[string]string) {
	for want, text := range texts {
		t.Run(want, func(t *testing.T) {
			r, err := s.Read("x", []byte(text))
			Check(t, s, "x", r, err)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// Fuzz is the body of a fuzz test: whatever the bytes are, Read gives a recording or
// an error that a Source may give. more are seeds besides the stored files.
func Fuzz(f *testing.F, s boot.Source, more ...string) {
	for _, path := range storedFiles(f) {
		for _, file := range Load(f, path).Files {
			f.Add(file.Data[:min(len(file.Data), 16<<10)])
		}
	}
	for _, text := range more {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s.Recognizes(data)
		r, err := s.Read("fuzz", data)
		Check(t, s, "fuzz", r, err)
	})
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s differs from\n%s\ncompare with go test -update and git diff (%v)", path, got, err)
	}
}
