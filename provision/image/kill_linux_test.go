package image

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// A build that is killed while the builder has mounted file systems in the new
// root leaves no mount behind, and the next build removes what it left.
func TestAKilledBuildLeavesNoMount(t *testing.T) {
	if testing.Short() {
		t.Skip("mounts file systems: not with -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	bin, dir := t.TempDir(), t.TempDir()
	mounted := filepath.Join(t.TempDir(), "mounted")
	builder := `#!/bin/sh
for root; do :; done
mkdir -p "$root/proc" && mount -t proc proc "$root/proc" && touch ` + mounted + ` && exec sleep 600
`
	if err := os.WriteFile(filepath.Join(bin, "mmdebstrap"), []byte(builder), 0o755); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", bin+":"+path)
	s := &Store{Dir: dir, Host: local.Conn{}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil && !exists(mounted) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if err := s.build(ctx, Request{Ref: "debian:bookworm"}, filepath.Join(dir, "root")); err == nil {
		t.Fatal("a build that was killed succeeded")
	}
	if !exists(mounted) {
		t.Fatal("the builder mounted nothing")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("a mount was left below %s: %v\n%s", dir, err, mounts)
	}
	if err := s.sweep(); err != nil {
		t.Errorf("the next build cannot remove what it left: %v", err)
	}
}

// Without the builder the error names its package.
func TestWithoutABuilder(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "unshare"), []byte("#!/bin/sh\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/bin")
	s := &Store{Dir: t.TempDir(), Host: local.Conn{}}
	err := s.build(t.Context(), Request{Ref: "debian:bookworm"}, filepath.Join(s.Dir, "root"))
	if !fault.Is(err, fault.Unsupported) || fault.Fix(err) != "apt-get install mmdebstrap" {
		t.Errorf("%v", err)
	}
}
