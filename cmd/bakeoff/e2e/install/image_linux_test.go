package install

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bakeoff/prepare/install/rescue"
	"bakeoff/provision/guest/qemu"
)

// TestImage installs a system into a file by --image, without a machine of the test. bakeoff is
// killed in the middle, which leaves a lease that clean finds, and no process; resume ends the
// installation in another machine. The file then starts by the boot entry in its variables, and
// without them.
func TestImage(t *testing.T) {
	b := newBench(t, "trixie")
	b.h.Env = append(b.h.Env, "http_proxy="+b.proxyURL())
	dir := filepath.Join(b.dir, "image")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	spec := b.specification(installation{dir, 1})
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	// bakeoff fills in the kernel and the archives of its rescue system.
	b.keep(spec, regexp.MustCompile(`(?m)^(base|modules|kernel): .*\n`).ReplaceAllString(string(text), "")+
		"kernel: "+rescue.Kernel+"\n")
	image, file, record := filepath.Join(dir, "out.raw"), filepath.Join(dir, "plan.json"), filepath.Join(dir, "record")
	run := func(args ...string) string {
		t.Helper()
		began := time.Now()
		out, said, code := b.h.Bakeoff(t, applyLimit, append(append([]string{"install"}, args...), "--image", image)...)
		if code != 0 {
			t.Fatalf("install %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, said)
		}
		t.Logf("install %s took %v", args[0], time.Since(began).Round(time.Second))
		return out
	}
	b.keep(file, run("plan", spec, "--json"))
	if _, err := os.Stat(image); err == nil {
		t.Error("plan made the image")
	}

	// It is killed in the middle of a step that destroys, in a machine of its own.
	said := filepath.Join(dir, "said")
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := b.h.Command("install", "apply", "--plan", file, "--confirm", hashOf(t, file), "--dir", record, "--image", image)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for end := time.Now().Add(applyLimit); ; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(filepath.Join(record, "journal.ndjson")); bytes.Contains(text, []byte(`"step":"pool"`)) {
			break
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(said)
			t.Fatalf("apply ended: %v\n%s", err, text)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("apply has not made the pool")
		}
	}
	out, errs, code := b.h.Bakeoff(t, time.Minute, "install", "probe", "--image", image)
	if code != 2 || !strings.Contains(errs, "the image is in use: another process installs into it") {
		t.Errorf("an image in use: exit code %d\n%s%s", code, out, errs)
	}
	out, errs, code = b.h.Bakeoff(t, time.Minute, "clean", "--dry-run")
	if code != 0 || !strings.Contains(out, "in use: directory ") {
		t.Errorf("clean while it installs: exit code %d\n%s%s", code, out, errs)
	}
	c.Process.Kill()
	<-ended
	out, errs, code = b.h.Bakeoff(t, time.Minute, "clean")
	if code != 0 || !strings.Contains(out, "removed directory ") || !strings.Contains(out, "install-") {
		t.Errorf("clean after a kill: exit code %d\n%s%s", code, out, errs)
	}
	b.h.LeavesNothing(t)

	run("resume", record)
	if out := run("verify", record); !strings.Contains(out, "0 differences") {
		t.Error(out)
	}
	b.h.LeavesNothing(t)

	b.disks = []disk{{"any", image}}
	b.variables(image + ".efivars")
	b.unlock()
	b.prints("findmnt -n -o SOURCE /", "zroot/ROOT/debian")
	b.prints("zpool status -x", healthy)
	b.startedBy("")
	b.off()
	t.Log("without its variables")
	b.variables(qemu.OVMFVariables)
	b.unlock()
	b.prints("findmnt -n -o SOURCE /", "zroot/ROOT/debian")
	b.off()
}
