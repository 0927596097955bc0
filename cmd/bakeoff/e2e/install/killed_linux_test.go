package install

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// applyLimit bounds an installation under emulation.
const applyLimit = 90 * time.Minute

// interrupt applies or resumes an installation until a step began, or shows how long it has
// been running, and then ends bakeoff with SIGKILL, or cuts the power of the guest.
func (b *bench) interrupt(step, record string, cut bool, args ...string) {
	b.t.Helper()
	said, err := os.Create(filepath.Join(b.dir, "said"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer said.Close()
	c := b.h.Command(append(append([]string{"install"}, args...), "--host", cmp.Or(b.host, b.name))...)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	name, long := strings.CutSuffix(step, " runs for")
	seen := func() bool {
		if long {
			text, _ := os.ReadFile(said.Name())
			return bytes.Contains(text, []byte("\n"+step))
		}
		text, _ := os.ReadFile(filepath.Join(record, "journal.ndjson"))
		last := text[bytes.LastIndexByte(bytes.TrimSpace(text), '\n')+1:]
		return bytes.Contains(last, []byte(`"start"`)) && bytes.Contains(last, []byte(`"step":"`+name+`"`))
	}
	for end := time.Now().Add(applyLimit); !seen(); time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(said.Name())
			b.t.Fatalf("it ended before %s: %v\n%s", step, err, text)
		default:
		}
		if time.Now().After(end) {
			b.t.Fatalf("waited %v for %s", applyLimit, step)
		}
	}
	if cut {
		b.cut()
		c.Process.Kill() // it would wait for the lost connection
		<-ended
		b.rescue()
		return
	}
	c.Process.Kill()
	<-ended
}

// TestKilled ends bakeoff and cuts the power in the middle of the steps that destroy, and of
// the base system: what they make is what an installation without an interruption made.
func TestKilled(t *testing.T) {
	b := newBench(t, "trixie")
	i := b.installed(b.encrypted())
	want, err := os.ReadFile(filepath.Join(i.dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(i.dir, "plan.json")
	b.empty(b.dir, 1)
	b.rescue()
	record := filepath.Join(b.dir, "record")
	b.interrupt("partition", record, false, "apply", "--plan", file, "--confirm", hashOf(t, file), "--dir", record)
	for _, at := range []struct {
		step string
		cut  bool
	}{{"pool", true}, {"base runs for", false}, {"luks", true}, {"mkswap", false}} {
		b.interrupt(at.step, record, at.cut, "resume", record)
		t.Log("interrupted in", at.step)
	}
	b.interrupt("fstab", record, false, "resume", record)
	// Files that differ from those of their packages; the archive itself lacks the folders of vim.
	b.prints(`chroot /mnt dpkg --verify | sed '\|/var/lib/vim|d'`, "")
	b.bakeoff("undo", record)
	if got := b.made(); got != string(want) {
		t.Errorf("the interrupted installation made\n%s\n\nwithout interruptions it is\n%s", got, want)
	}
}
