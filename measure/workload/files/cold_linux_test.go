package files

import (
	"context"
	"fmt"
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
	s, err := readSettings(p, env)
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
	// The kernel keeps a page that it is just moving: evict takes up to 1 %.
	if in, all, err := resident(w.fd, s.size); err != nil || in*100 > all || all != int(s.size)/4096 {
		t.Errorf("%d of %d pages are in memory (%v)", in, all, err)
	}
	var before, after unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &before)
	p["time"] = "2m0s" // it ends after one pass
	r, err := runLoop(context.Background(), p, env)
	if err != nil {
		t.Fatal(err)
	}
	unix.Getrusage(unix.RUSAGE_SELF, &after)
	const pages = 256
	kept := int64(-1)
	_, note, _ := strings.Cut(r.Check.Answer, ", ")
	if _, err := fmt.Sscanf(note, "%d of 256 pages were in memory", &kept); err != nil || r.Work != pages ||
		kept < 0 || kept*100 > pages {
		t.Fatalf("%g blocks, %q", r.Work, r.Check.Answer)
	}
	if blocks, want := after.Inblock-before.Inblock, s.size/512*(pages-kept)/pages; blocks < want {
		t.Errorf("%d sectors came from the disk, and %d of the file were not in memory", blocks, want)
	}
}
