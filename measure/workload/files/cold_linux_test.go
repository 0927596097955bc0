package files

import (
	"context"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"

	"golang.org/x/sys/unix"
)

// With cache=cold the kernel itself says that nothing of the file is in
// memory before, and all of it afterwards.
func TestColdIsCold(t *testing.T) {
	p, env := cell(t, param.Values{"op": "rand-read", "cache": "cold", "size": "1MiB"})
	if err := prepare(context.Background(), p, env); err != nil {
		t.Fatal(err)
	}
	s, err := read(p, env)
	if err != nil {
		t.Fatal(err)
	}
	w, err := openLarge(s, newTimer())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.begin(); fault.Is(err, fault.Unsupported) {
		t.Skipf("the file system of the test's folder: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if in, all, err := resident(w.fd, s.size); err != nil || in != 0 || all != int(s.size)/4096 {
		t.Errorf("%d of %d pages are in memory (%v)", in, all, err)
	}
	var before, after unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &before)
	p["time"] = "10s"
	r, err := run(context.Background(), p, env)
	if err != nil {
		t.Fatal(err)
	}
	unix.Getrusage(unix.RUSAGE_SELF, &after)
	if r.Work != 256 || !strings.Contains(r.Check.Answer, "of 256 pages were in memory") {
		t.Errorf("%g blocks, %q", r.Work, r.Check.Answer)
	}
	if blocks := after.Inblock - before.Inblock; blocks < s.size/512 {
		t.Errorf("%d sectors came from the disk, and the file has %d", blocks, s.size/512)
	}
}
