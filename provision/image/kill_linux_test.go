package image

import (
	"context"
	"os"
	"os/exec"
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
	if err := s.buildRoot(ctx, Request{Ref: "debian:bookworm"}, filepath.Join(dir, "root")); err == nil {
		t.Fatal("a build that was killed succeeded")
	}
	if !exists(mounted) {
		t.Fatal("the builder mounted nothing")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("a mount was left below %s: %v\n%s", dir, err, mounts)
	}
	if err := s.sweepPartial(t.Context()); err != nil {
		t.Errorf("the next build cannot remove what it left: %v", err)
	}
}

// killedStore names the store of the process that TestAKilledBuildEndsItsBuilder
// starts and kills.
const killedStore = "BAKEOFF_TEST_KILLED_STORE"

// If the process that builds is killed, its builder ends with all that it started.
// What it left is found, and the next build does not share a directory with it.
func TestAKilledBuildEndsItsBuilder(t *testing.T) {
	if dir := os.Getenv(killedStore); dir != "" {
		s := &Store{Dir: dir, Host: local.Conn{}}
		_, err := s.Get(t.Context(), Request{Ref: "debian:bookworm"})
		t.Fatalf("the builder ended: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	bin, dir := t.TempDir(), t.TempDir()
	alive := filepath.Join(t.TempDir(), "alive")
	builder := `#!/bin/sh
for root; do :; done
mkdir -p "$root" && mktemp -d "${TMPDIR:-/tmp}/mmdebstrap.gpghome.XXXXXXXX" || exit 1
sh -c 'while :; do date +%N >"$0"; sleep 0.02; done' ` + alive + `
`
	if err := os.WriteFile(filepath.Join(bin, "mmdebstrap"), []byte(builder), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestAKilledBuildEndsItsBuilder$")
	c.Env = append(os.Environ(), killedStore+"="+dir, "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+bin)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Store{Dir: dir, Host: local.Conn{}}
	wait(t, "the builder to start", func() bool { return exists(alive) })
	if left, err := s.Sweep(t.Context(), false); err != nil || len(left) > 0 {
		t.Errorf("a build in progress was taken for a leftover: %v, %v", left, err)
	}
	_ = c.Process.Kill()
	_ = c.Wait() // it was killed
	wait(t, "the builder to end", func() bool {
		before, _ := os.ReadFile(alive)
		time.Sleep(200 * time.Millisecond)
		after, err := os.ReadFile(alive)
		return err == nil && string(before) == string(after)
	})
	left, err := s.Sweep(t.Context(), true)
	if err != nil || len(left) != 1 || !exists(left[0]) {
		t.Fatalf("Sweep, dry run: %v, %v", left, err)
	}
	if next, err := s.partial(filepath.Join(dir, Request{Ref: "debian:bookworm"}.key("root"))); err != nil ||
		next == left[0] {
		t.Errorf("the next build works in %q, %v", next, err)
	} else if err := os.RemoveAll(next); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Sweep(t.Context(), false); err != nil || len(again) != 1 || exists(left[0]) {
		t.Errorf("Sweep: %v, %v", again, err)
	}
	if homes, _ := filepath.Glob(filepath.Join(bin, "mmdebstrap.gpghome.*")); len(homes) > 0 {
		t.Errorf("temporary directories of the builder remain: %v", homes)
	}
}

// wait waits for what another process does.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Without the builder the error names its package.
func TestWithoutABuilder(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "flock"), []byte("#!/bin/sh\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/bin")
	s := &Store{Dir: t.TempDir(), Host: local.Conn{}}
	err := s.buildRoot(t.Context(), Request{Ref: "debian:bookworm"}, filepath.Join(s.Dir, "root"))
	if !fault.Is(err, fault.Unsupported) || fault.Fix(err) != "apt-get install mmdebstrap" {
		t.Errorf("%v", err)
	}
}

// The builder gets the keyring of the distribution, whatever this machine trusts; without
// it the error says how to get it.
func TestKeyringOfAnotherDistribution(t *testing.T) {
	bin := t.TempDir()
	flock := "#!/bin/sh\nshift; echo \"$@\" >" + filepath.Join(bin, "args") + "\n" +
		"echo \"E: The repository 'http://archive.ubuntu.com/ubuntu noble InRelease' is not signed.\" >&2\nexit 25\n"
	if err := os.WriteFile(filepath.Join(bin, "flock"), []byte(flock), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	was := distributions["ubuntu"]
	t.Cleanup(func() { distributions["ubuntu"] = was })
	of := was
	of.keyring = filepath.Join(t.TempDir(), "ubuntu.gpg")
	distributions["ubuntu"] = of
	build := func() (args string, err error) {
		s := &Store{Dir: t.TempDir(), Host: local.Conn{}}
		err = s.buildRoot(t.Context(), Request{Ref: "ubuntu:noble"}, filepath.Join(s.Dir, "root"))
		text, rerr := os.ReadFile(filepath.Join(bin, "args"))
		if rerr != nil {
			t.Fatal(rerr)
		}
		return string(text), err
	}
	args, err := build()
	if strings.Contains(args, "--keyring") || !fault.Is(err, fault.Unsupported) || fault.Fix(err) != of.trust ||
		!strings.Contains(err.Error(), of.keyring) {
		t.Errorf("without the keyring: %s%v", args, err)
	}
	if err := os.WriteFile(of.keyring, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	args, err = build()
	if !strings.Contains(args, "--keyring="+of.keyring+" ") || !fault.Is(err, fault.Lab) {
		t.Errorf("with the keyring: %s%v", args, err)
	}
}
