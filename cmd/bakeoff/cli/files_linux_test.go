package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
)

// unnamedOrSkip skips a test on a file system that has no files without names.
func unnamedOrSkip(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		t.Skip("the file system of TMPDIR has no files without names (O_TMPFILE): set TMPDIR to another one")
	}
	f.Close()
}

// text writes a text.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// folder is the content of files by name.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

// writers are both ways to write a file, by name.
var writers = map[string]func(string, func(io.Writer) error) error{"create": CreateFile, "replace": ReplaceFile}

// killedWriter makes the test below write a file instead: how, and where.
const killedWriter, killedFile = "BAKEOFF_TEST_KILLED_WRITER", "BAKEOFF_TEST_KILLED_FILE"

// A command that is killed while it writes leaves nothing in the folder, and what was there
// stays.
func TestAKilledCommandLeavesNoFile(t *testing.T) {
	if write := writers[os.Getenv(killedWriter)]; write != nil {
		err := write(os.Getenv(killedFile), func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte("new"), 1<<20))
			fmt.Println("half of it")
			time.Sleep(time.Hour)
			return err
		})
		t.Fatalf("it was not killed: %v", err)
	}
	for how := range writers {
		dir := t.TempDir()
		unnamedOrSkip(t, dir)
		want := map[string]string{"other": "old"}
		name := filepath.Join(dir, "file")
		if how == "replace" {
			want["file"] = "old"
		}
		for n, content := range want {
			if err := os.WriteFile(filepath.Join(dir, n), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command(os.Args[0], "-test.run=^TestAKilledCommandLeavesNoFile$")
		c.Env = append(os.Environ(), killedWriter+"="+how, killedFile+"="+name)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		if err != nil || line != "half of it\n" {
			t.Errorf("%s: the command printed %q, %v", how, line, err)
		}
		if got := folder(t, dir); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the folder has %v, want %v", how, got, want)
		}
	}
}

// A file appears whole, with the usual mode, and a failed one not at all.
func TestAFileIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := CreateFile(name, text("first")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	taken := CreateFile(name, text("second"))
	// The file appears while another one is written.
	other := filepath.Join(dir, "other")
	late := CreateFile(other, func(w io.Writer) error { return os.WriteFile(other, []byte("theirs"), 0o600) })
	for _, err := range []error{taken, late} {
		if !fault.Is(err, fault.Invalid) || fault.Fix(err) != "remove it or name another file" {
			t.Errorf("%v; %s", err, fault.Fix(err))
		}
	}
	broken := errors.New("broken")
	for how, write := range writers {
		if err := write(filepath.Join(dir, "new"), func(io.Writer) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%s: %v", how, err)
		}
	}
	if err := ReplaceFile(name, text("third")); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(folder(t, dir)); got != fmt.Sprint(map[string]string{"file": "third", "other": "theirs"}) {
		t.Errorf("the folder has %v", got)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(filepath.Join(dir, "folder"), text("x")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a folder was replaced: %v", err)
	}
	if err := CreateFile(filepath.Join(dir, "none", "x"), text("x")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}
