package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/suite"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// prepare builds the agent, and the root if none was given.
func (s *runner) prepare() {
	s.Helper()
	if s.dir = s.o.Dir; s.dir == "" {
		s.dir = s.TempDir()
	}
	if s.agent = s.o.Agent; s.agent == "" {
		s.agent = filepath.Join(s.dir, "bakeoff-agent")
		if err := suite.BuildAgent(s.agent); err != nil {
			s.Fatal(err)
		}
	}
	doc := s.drv.Doc()
	if doc.Image && s.o.Image.Root == "" && s.o.Image.Ref == "" && !s.o.Options.Match(doc.OwnRoot) {
		s.o.Image = driver.Image{Ref: "busybox", Digest: "sha256:none", Root: s.busybox()}
	}
}

// startEngine starts the engine that environments with these options use, as a run
// does before its first environment. It ends with the test.
func (s *runner) startEngine() {
	s.Helper()
	d, ok := s.drv.(driver.EngineStarter)
	if !ok {
		return
	}
	spec := s.spec("found")
	spec.CPUSet = nil
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	f, err := d.StartEngine(ctx, s.host, spec)
	if err != nil {
		s.Fatal(err)
	}
	if f == nil {
		return
	}
	s.o.Options = f.Options()
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
		defer cancel()
		for range 2 {
			if err := f.Close(ctx); err != nil {
				s.Errorf("the engine: close: %v", err)
			}
		}
		s.nothing(spec)
	})
}

// busybox creates a root with only a static busybox.
func (s *runner) busybox() string {
	s.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		s.Skip("needs busybox for a root: apt-get install busybox-static")
	}
	if out, err := exec.Command("ldd", program).CombinedOutput(); err == nil &&
		!bytes.Contains(out, []byte("not a dynamic")) {
		s.Skip("needs a static busybox for a root: apt-get install busybox-static")
	}
	root := filepath.Join(s.dir, "image")
	for _, d := range []string{"bin", "etc", "root", "usr/bin", "var"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			s.Fatal(err)
		}
	}
	b, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "bin/busybox"), b, 0o755)
	}
	if err != nil {
		s.Fatal(err)
	}
	names, err := exec.Command(program, "--list").Output()
	if err != nil {
		s.Fatal(err)
	}
	for _, n := range strings.Fields(string(names)) {
		if n != "busybox" {
			if err := os.Symlink("busybox", filepath.Join(root, "bin", n)); err != nil {
				s.Fatal(err)
			}
		}
	}
	// An image is never written to.
	s.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(root, ".bakeoff")); err == nil {
			s.Error("the image was written to")
		}
	})
	return root
}

// label is unique on the host and names the test.
func (s *runner) label(name string) string {
	h := fnv.New32a()
	fmt.Fprint(h, s.o.Name, name, s.dir)
	return fmt.Sprintf("dt-%s-%s-%08x", s.drv.Doc().Name, name, h.Sum32())
}

// spec describes an environment with a directory of its own.
func (s *runner) spec(name string) driver.Spec {
	s.Helper()
	dir := filepath.Join(s.dir, "env-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	return driver.Spec{Label: s.label(name), Name: name, Dir: dir, CPUs: 1, CPUSet: []int{0}, Memory: s.o.Memory,
		Image: s.o.Image, Agent: s.agent, Options: s.o.Options}
}

// create creates an environment, which is closed with the test, and checks that
// it leaves nothing.
func (s *runner) create(spec driver.Spec) driver.Instance {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	in, err := s.drv.Create(ctx, s.host, spec)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.close(in, spec) })
	return in
}

// close closes in twice and checks for leftovers.
func (s *runner) close(in driver.Instance, spec driver.Spec) {
	s.Helper()
	if s.Failed() {
		s.Logf("%s", in.Diagnose(context.Background()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	for range 2 {
		if err := in.Close(ctx); err != nil {
			s.Errorf("close: %v", err)
		}
	}
	s.nothing(spec)
}

// nothing checks that an environment left nothing.
func (s *runner) nothing(spec driver.Spec) {
	s.Helper()
	found, err := s.drv.Reap(context.Background(), s.host, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	if err != nil || len(found) > 0 {
		s.Errorf("left behind: %q, %v", found, err)
	}
	// Check independently of the driver, too.
	left := Remains
	if s.o.Left != nil {
		left = s.o.Left
	}
	for _, thing := range left(spec) {
		s.Errorf("left behind: %s", thing)
	}
	if err := os.RemoveAll(spec.Dir); err != nil {
		s.Errorf("cannot remove the directory: %v", err)
	}
}

// exec runs argv inside and returns how it ended, with its output.
func (s *runner) exec(in driver.Instance, argv ...string) (conn.Exit, string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	exit, err := in.Exec(ctx, conn.Cmd{Argv: argv, Stdout: &out, Stderr: &out})
	if err != nil {
		s.Fatalf("%q: %v", argv, err)
	}
	return exit, out.String()
}

// patience bounds a wait for something that is fast on an idle machine.
const patience = time.Minute

// until waits for ok, at most patience.
func (s *runner) until(what string, ok func() bool) {
	s.Helper()
	s.within(patience, what, ok)
}

func (s *runner) within(most time.Duration, what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(most); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited %v for %s", most, what)
		}
	}
}

// Remains finds leftovers of an environment on a Linux host, and mounts on any
// host, one line for each.
func Remains(spec driver.Spec) (left []string) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		mounts, _ = exec.Command("mount").Output()
	}
	if bytes.Contains(mounts, []byte(spec.Dir)) {
		left = append(left, "mounts below "+spec.Dir)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/*/" + spec.Label, "/sys/fs/cgroup/*/" + spec.Label,
		"/run/netns/*" + spec.Label} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	return left
}
