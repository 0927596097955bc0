package services

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// patience bounds a wait for something that is fast on an idle machine.
const patience = 5 * time.Minute

// waits tells whether a program sleeps for these seconds. It is not one that a shell has
// built in.
func waits(seconds string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte("sleep\x00"+seconds+"\x00")) {
			return true
		}
	}
	return false
}

// until waits for ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// endedInAStep sends a signal to a build while one of its steps runs. It returns how it
// ended and what it printed.
func endedInAStep(t *testing.T, h e2e.Home, signal syscall.Signal, from string, n int) (*os.ProcessState, string) {
	t.Helper()
	service, seconds := waiting(t, h.Dir, n)
	c := h.Command("image", "build", "--json", service, "--arg", "BASE="+from, "--arg", "WAIT="+seconds)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // the state says how it ended
		close(ended)
	}()
	defer func() {
		_ = c.Process.Kill()
		<-ended
	}()
	end := time.After(limit)
	for !waits(seconds) {
		select {
		case <-ended:
			t.Fatalf("the build ended: %v\n%s", c.ProcessState, said.String())
		case <-end:
			t.Fatalf("no step after %v", limit)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := c.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("it does not end after %v", signal)
	}
	until(t, "the step to end with its build", func() bool { return !waits(seconds) })
	return c.ProcessState, said.String()
}

// A build that is killed leaves nothing that clean does not find, no process, and nothing
// that disturbs the next build.
func TestABuildIsKilled(t *testing.T) {
	h, _ := start(t)
	from := base(t, h.Dir)
	endedInAStep(t, h, syscall.SIGKILL, from, 1)
	out, errs, code := h.Bakeoff(t, patience, "clean", "--dry-run")
	if code != 0 || !strings.Contains(out, "service-waiting-") {
		t.Errorf("clean does not find it: exit code %d\n%s%s", code, out, errs)
	}
	service, _ := waiting(t, h.Dir, 1)
	if r := built(t, h, service, "--arg", "BASE="+from, "--arg", "WAIT=0")["waiting"]; !r.Built {
		t.Errorf("the next build says %+v", r)
	}
	killedWhileItCopies(t, h, service, "--arg", "BASE="+from, "--arg", "WAIT=0")
	if out, errs, code := h.Bakeoff(t, patience, "clean"); code != 0 {
		t.Errorf("clean: exit code %d\n%s%s", code, out, errs)
	}
	h.LeavesNothing(t)
}

// killedWhileItCopies kills a build as soon as it writes to the folder of --output. The
// folder then has whole files only.
func killedWhileItCopies(t *testing.T, h e2e.Home, args ...string) {
	t.Helper()
	whole := built(t, h, append(args[:len(args):len(args)], "--output", "whole")...)["waiting"]
	c := h.Command(append([]string{"image", "build", "--output", "killed"}, args...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(h.Dir, "killed")
	until(t, "the build to write", func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.Process.Pid))
		writes := slices.ContainsFunc(files, func(f string) bool {
			to, err := os.Readlink(f)
			return err == nil && strings.HasPrefix(to, out+"/")
		})
		names, _ := filepath.Glob(filepath.Join(out, "*"))
		return writes || len(names) > 0
	})
	_ = c.Process.Kill()
	_ = c.Wait() // it was killed
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		want, err := os.Stat(filepath.Join(h.Dir, "whole", e.Name()))
		if err != nil {
			t.Errorf("a killed build left %s", e.Name())
			continue
		}
		if info, err := e.Info(); err != nil || info.Size() != want.Size() {
			t.Errorf("a killed build left %s with %d bytes of %d, %v", e.Name(), info.Size(), want.Size(), err)
		}
	}
	if len(entries) == 5 {
		t.Logf("all files of %s were there before the build was killed", whole.Image)
	}
}

// A build that is asked to end says so, with the exit code of the signal, and removes
// what it made.
func TestABuildIsInterrupted(t *testing.T) {
	h, _ := start(t)
	state, said := endedInAStep(t, h, syscall.SIGTERM, base(t, h.Dir), 2)
	if state.ExitCode() != 128+int(syscall.SIGTERM) || !strings.Contains(said, "interrupted; run the command again") ||
		strings.Contains(said, "correct the step") {
		t.Errorf("%v\n%s", state, said)
	}
	h.LeavesNothing(t)
}
