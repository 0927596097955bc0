package journal_test

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/journal"
)

// entry is a line of the journals of these tests.
type entry struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

var format = journal.Format[entry]{Name: "test.ndjson", Fix: "restore it", Check: func(e entry, first bool) error {
	if first != (e.N == 1) {
		return errors.New("the number is wrong")
	}
	return nil
}}

// openJournal opens a journal as its writer does.
func openJournal(t *testing.T, name string) (*journal.Writer[entry], []entry, *os.File) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w, lines, err := format.Resume(f)
	if err != nil {
		t.Fatal(err)
	}
	return w, lines, f
}

// textOf is the content number n: of any length, with its checksum.
func textOf(n int) string {
	s := strings.Repeat(fmt.Sprint(n, " "), rand.IntN(20000))
	return fmt.Sprintf("%d %d %s", n, crc32.ChecksumIEEE([]byte(s)), s)
}

// numberOf is the number of a text that is whole.
func numberOf(t *testing.T, text string) int {
	t.Helper()
	var n int
	var sum uint32
	if _, err := fmt.Sscanf(text, "%d %d", &n, &sum); err != nil {
		t.Fatalf("a torn text: %v", err)
	}
	if rest := strings.SplitN(text, " ", 3)[2]; crc32.ChecksumIEEE([]byte(rest)) != sum {
		t.Fatalf("text %d of %d bytes is torn", n, len(text))
	}
	return n
}

// A survivor writes texts and then says what a file holds.
type survivor struct {
	// begin returns how many texts are there, and what writes the next one. It runs in the
	// process that is killed.
	begin func(t *testing.T, dir string) (have int, write func(n int) error)
	// last is the number of the last text, after the process was killed.
	last func(t *testing.T, dir string) int
}

var survivors = map[string]survivor{
	"journal": {
		begin: func(t *testing.T, dir string) (int, func(int) error) {
			w, lines, _ := openJournal(t, filepath.Join(dir, "file"))
			return len(lines), func(n int) error { return w.Append(entry{n, textOf(n)}) }
		},
		last: func(t *testing.T, dir string) int {
			f, err := os.Open(filepath.Join(dir, "file"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			lines, _, err := format.Read(f)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range lines {
				if e.N != i+1 || numberOf(t, e.Text) != e.N {
					t.Fatalf("line %d has the number %d", i+1, e.N)
				}
			}
			return len(lines)
		},
	},
	"atomicfile": {
		begin: func(t *testing.T, dir string) (int, func(int) error) {
			return numberIn(t, dir), func(n int) error {
				return atomicfile.Write(filepath.Join(dir, "file"), []byte(textOf(n)), 0o600)
			}
		},
		last: numberIn,
	},
}

// numberIn is the number of the text in the file; 0 if there is no file.
func numberIn(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "file"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return numberOf(t, string(b))
}

// The environment of the process that is killed: what it writes, and where.
const killedHow, killedDir = "BAKEOFF_TEST_KILLED_HOW", "BAKEOFF_TEST_KILLED_DIR"

// A process that is killed with SIGKILL at any time loses nothing that was acknowledged, and
// leaves no torn text: a journal has all lines, and a file is the old or the new one. That
// also the machine may fail is the purpose of fsync(2), which this test cannot show.
func TestKilled(t *testing.T) {
	if s, ok := survivors[os.Getenv(killedHow)]; ok {
		n, write := s.begin(t, os.Getenv(killedDir))
		for {
			n++
			if err := write(n); err != nil {
				t.Fatal(err)
			}
			fmt.Println("wrote", n)
		}
	}
	kills := 40
	if testing.Short() {
		kills = 8
	}
	for how, s := range survivors {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir, known := t.TempDir(), 0
			for range kills {
				known = max(known, writeAndKill(t, how, dir))
				got := s.last(t, dir)
				if got < known || got > known+1 {
					t.Fatalf("the last text is %d, and %d was acknowledged", got, known)
				}
				known = got
				checkFolder(t, dir)
			}
			t.Logf("%d texts, %d kills", known, kills)
			if known < kills/2 {
				t.Errorf("only %d texts were written before %d kills", known, kills)
			}
		})
	}
}

// writeAndKill starts a process that writes, kills it at a random time, and returns the last
// number that it acknowledged; 0 if there is none.
func writeAndKill(t *testing.T, how, dir string) int {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	c.Env = append(os.Environ(), killedHow+"="+how, killedDir+"="+dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n := 0
		if _, err := fmt.Sscanf(lines.Text(), "wrote %d", &n); err != nil {
			t.Fatalf("the process printed %q", lines.Text())
		}
		if last == 0 { // it writes
			time.AfterFunc(time.Duration(rand.IntN(10000))*time.Microsecond, func() { _ = c.Process.Kill() })
		}
		last = n
	}
	if err := c.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the process ended with %v", err)
	}
	return last
}

// checkFolder finds no other file than a part that was to be renamed next, which is removed.
func checkFolder(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "file" {
			continue
		}
		if !strings.HasPrefix(e.Name(), ".part-") {
			t.Errorf("it left %s", e.Name())
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
